//! The layout of the memory that the processes of a group share.
//!
//! ```text
//!   | head: 16 words | slots: 16 words each | rows: 64 words each |   slot n, row n: one process
//!   head: | magic | most held | used | is short | looked at | space | messages
//!         | over the limit: bytes, process, its bytes | next walk
//!         | exceeded: bytes, process, its bytes, name: 2 words |
//!   slot: | process | held | evictable | parent | pool: changed, inherited | blocks: the same |
//!         | waits | wanted | peers | shared | name: 2 words | end | - |
//!   row:  | process | what it has done: `Figures`, by their order | - | faults by their times |
//! ```
//! Each process writes its figures to its own slot and row. The slots are adjacent, so a process
//! reads little memory to add up the memory that all processes hold. A row uses no memory until it
//! is written. If a process ended without a report, its name and its row remain until another
//! process takes the slot.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"uzramtr9");
pub(crate) const HEAD: usize = 16;
/// The number of 8-byte words in a slot, which has the size of two cache lines. A slot holds the
/// numbers that other processes add up, and requests to the slot's process.
pub(crate) const SLOT: usize = 16;
/// The number of words in a row. A row holds the named figures, then the histogram of the durations
/// of faults.
pub(crate) const ROW: usize = 64;
/// The maximum number of slots. The head and this number of slots use less than 64 KiB.
pub(crate) const SLOTS: usize = 510;
/// The number of 8-byte words in a process's name. The kernel's name of a process has 16 bytes.
pub(crate) const NAME: usize = 2;
/// The process ID in a slot that is being freed.
pub(crate) const CLEARED: u64 = u64::MAX;

/// The words of a row, which hold the figures of one process.
pub(crate) type GroupRow<T> = [T; ROW];

/// The parts of a group's shared memory, or of a copy of the memory.
#[derive(Debug)]
pub(crate) struct Parts<'a, T> {
    pub(crate) head: &'a [T; HEAD],
    pub(crate) slots: &'a [[T; SLOT]],
    pub(crate) rows: &'a [GroupRow<T>],
}

/// Defines a structure whose fields name the words of an array in order.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $count:ident, $($(#[$word_doc:meta])* $word:ident,)*) => {
        $(#[$doc])*
        pub(crate) struct $name<'a, T = AtomicU64> {
            $($(#[$word_doc])* pub(crate) $word: &'a T,)*
        }

        impl<'a, T> $name<'a, T> {
            pub(crate) fn of([$($word,)* ..]: &'a [T; $count]) -> Self {
                $name { $($word),* }
            }
        }
    };
}

words! {
    /// The words of the head.
    Head: HEAD,
    magic,
    peak,
    /// The index of the highest slot that was ever used, plus 1.
    used,
    is_short,
    /// The time of the last search for ended processes, in milliseconds.
    looked,
    space,
    /// The messages that processes of the group have reported, one bit for each message.
    reported,
    /// The number of unevictable bytes when a process last found that the limit can't be kept, or 0
    /// if no process has.
    over_limit,
    /// The ID of the process that holds the largest part of `over_limit`.
    over_limit_process,
    /// The number of bytes of `over_limit` that `over_limit_process` holds.
    over_limit_most,
    /// The time of the next measurement of shared memory, in milliseconds (see `shared_memory`).
    shared_next,
    /// The maximum number of bytes that all processes held together, if it exceeded the limit (see
    /// `Exceeded::note`).
    exceeded,
    /// The ID of the process that held the largest part of `exceeded`. The next word holds the
    /// number of bytes in that part.
    exceeded_process,
    exceeded_most,
    /// The name of the program of `exceeded_process`, in two words as in a slot.
    exceeded_name_begin,
    exceeded_name_end,
}

words! {
    /// The words of a slot, which describe one process.
    Slot: SLOT,
    /// The process ID, or 0 if the slot is free.
    process,
    held,
    evictable,
    /// The index of the parent's slot plus 1 if the process shares memory with its parent, else 0.
    parent,
    pool_changed,
    pool_inherited,
    blocks_changed,
    blocks_inherited,
    waits,
    /// The time when the process last found no room for its blocks within the limit, in
    /// milliseconds.
    wanted,
    /// The bits by which this process cooperates with processes that access its memory (see
    /// `peers`).
    peers,
    /// The number of bytes of shared memory that are charged to the process. The word also contains
    /// the bit `MAPS` (see `shared_memory`).
    shared,
    /// The first half of the name of the process's program, padded with zeros.
    name_begin,
    name_end,
    /// `EXECUTES` or `UNREPORTED` if the process has published how it ends, else 0.
    end,
}

/// The value of `end` if the process was about to execute a program or to continue without the
/// runtime.
pub(crate) const EXECUTES: u64 = 1;
/// The value of `end` if the process exited, but could not report its figures.
pub(crate) const UNREPORTED: u64 = 2;
/// The bit of `shared` that is set if the process maps shared memory, even if this memory is not
/// measured yet.
pub(crate) const MAPS: u64 = 1;

/// The words of a slot for one kind of inherited memory: the pool or the blocks (see `inherited`).
pub(crate) struct Part<'a, T = AtomicU64> {
    /// A start value plus the number of bytes that have changed in memory shared with children.
    pub(crate) changed: &'a T,
    pub(crate) inherited: &'a T,
}

impl<'a, T> Parts<'a, T> {
    /// Returns the parts of `words`, or `None` if `words` is too short for a slot and a row.
    pub(crate) fn of(words: &'a [T]) -> Option<Self> {
        let (head, rest) = words.split_first_chunk()?;
        let count = rest.len() / (SLOT + ROW);
        let (slots, rows) = rest.split_at(count * SLOT);
        let rows = &rows.as_chunks().0[..count];
        (count > 0).then_some(Parts { head, slots: slots.as_chunks().0, rows })
    }
}

impl<'a, T> Head<'a, T> {
    pub(crate) fn exceeded_name(&self) -> [&'a T; NAME] {
        [self.exceeded_name_begin, self.exceeded_name_end]
    }
}

/// Returns the name that `words` contain. The words come from a slot or from the head.
pub(crate) fn name_of(words: [u64; NAME]) -> String {
    let bytes = words.map(u64::to_ne_bytes);
    String::from_utf8_lossy(bytes.as_flattened()).trim_end_matches('\0').to_owned()
}

impl<'a, T> Slot<'a, T> {
    pub(crate) fn pool(&self) -> Part<'a, T> {
        Part { changed: self.pool_changed, inherited: self.pool_inherited }
    }

    pub(crate) fn blocks(&self) -> Part<'a, T> {
        Part { changed: self.blocks_changed, inherited: self.blocks_inherited }
    }

    pub(crate) fn name(&self) -> [&'a T; NAME] {
        [self.name_begin, self.name_end]
    }
}

/// Returns the number of bytes of shared memory that the word `shared` encodes.
pub(crate) fn shared_bytes(word: u64) -> u64 {
    word & !MAPS
}

impl Slot<'_> {
    /// Prepares the slot for a new process. `name` is the process's name, padded with zeros. Clears
    /// the words that a killed process may have left in the slot.
    pub(crate) fn begin(&self, name: [u8; 8 * NAME]) {
        [self.waits, self.peers, self.shared, self.end]
            .iter()
            .for_each(|word| word.store(0, Relaxed));
        let words = name.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        self.name().iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
    }

    /// Publishes that the process holds no memory, does not wait, and accepts no requests.
    pub(crate) fn hush(&self) {
        let Slot { held, evictable, waits, wanted, peers, .. } = self;
        [held, evictable, waits, wanted, peers].iter().for_each(|word| word.store(0, Relaxed));
    }
}
