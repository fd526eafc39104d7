//! The layout of the memory that processes share.
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
//! Each process writes its figures to its own slot and row. To add up the memory that all processes
//! hold, a process reads only the slots, which are adjacent. A row uses no memory until it is
//! written. The name and the row of a process that ended without a report remain until another
//! process takes the slot.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"uzramtr9");
pub(crate) const HEAD: usize = 16;
/// The number of words of a slot (two cache lines), which hold the numbers that other processes add
/// up, and requests to the process.
pub(crate) const SLOT: usize = 16;
/// The number of words of a row: first the figures that have names, last the histogram of the
/// durations of faults.
pub(crate) const ROW: usize = 64;
/// The maximum number of slots. With them, the head and the slots use less than 64 KiB.
pub(crate) const SLOTS: usize = 510;
/// The number of words of a process's name, which has 16 bytes in the kernel.
pub(crate) const NAME: usize = 2;
/// The process number in a slot that is being freed.
pub(crate) const CLEARED: u64 = u64::MAX;

/// The words of a row, which hold the figures of one process.
pub(crate) type GroupRow<T> = [T; ROW];

/// The parts of a group's shared memory, or of a copy of that memory.
#[derive(Debug)]
pub(crate) struct Parts<'a, T> {
    pub(crate) head: &'a [T; HEAD],
    pub(crate) slots: &'a [[T; SLOT]],
    pub(crate) rows: &'a [GroupRow<T>],
}

/// Defines a structure that gives names to the words of an array, in their order.
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
    /// The number of slots, from the first one, that were ever used.
    used,
    is_short,
    /// The time of the last search for processes that have ended, in milliseconds.
    looked,
    space,
    /// The messages that a process of the group has reported: one bit for each message.
    reported,
    /// The number of bytes that can't be evicted, if a process found that the limit can't be kept,
    /// or else 0.
    over_limit,
    /// The process that holds the largest part of the bytes that `over_limit` counts.
    over_limit_process,
    /// The part of `over_limit` that `over_limit_process` holds, in bytes.
    over_limit_most,
    /// The time of the next measurement of shared memory, in milliseconds: see `shared_memory`.
    shared_next,
    /// The largest number of bytes that all processes together held, if it exceeded the limit: see
    /// `Exceeded::note`.
    exceeded,
    /// The process that held the largest part of the bytes that `exceeded` counts, and then the
    /// number of bytes in this part.
    exceeded_process,
    exceeded_most,
    /// The name of the program of `exceeded_process`, in two words as in a slot.
    exceeded_name_begin,
    exceeded_name_end,
}

words! {
    /// The words of a slot, which describe one process.
    Slot: SLOT,
    /// The process's number, or 0 if the slot is free.
    process,
    held,
    evictable,
    /// The number of the parent's slot plus 1 if the process shares memory with its parent, or else
    /// 0.
    parent,
    pool_changed,
    pool_inherited,
    blocks_changed,
    blocks_inherited,
    waits,
    /// The time when the process last found no room, in milliseconds.
    wanted,
    /// Bits by which this process and processes that access its memory cooperate: see `peers`.
    peers,
    /// The bytes of shared memory that count for the process, with the bit `MAPS`: see
    /// `shared_memory`.
    shared,
    /// The first half of the name of the process's program, padded with zeros.
    name_begin,
    name_end,
    /// `EXECUTES` or `UNREPORTED` if the process has announced how it ends, or else 0.
    end,
}

/// A value of `end`: the process was about to execute a program, or to continue without the
/// runtime.
pub(crate) const EXECUTES: u64 = 1;
/// A value of `end`: the process ended by itself, and could not report its figures.
pub(crate) const UNREPORTED: u64 = 2;
/// A bit of `shared`: the process maps shared memory, whose bytes may not be measured yet.
pub(crate) const MAPS: u64 = 1;

/// The words of a slot for one kind of inherited memory (pool or blocks): see the module
/// `inherited`.
pub(crate) struct Part<'a, T = AtomicU64> {
    /// A start value plus the number of bytes that have changed in memory that the process's
    /// children share.
    pub(crate) changed: &'a T,
    pub(crate) inherited: &'a T,
}

impl<'a, T> Parts<'a, T> {
    /// Returns the parts of `words`, or `None` if `words` has no room for a slot and a row.
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

/// Returns the name that `words`, from a slot or the head, contain.
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

/// Returns the bytes of shared memory that the word `shared` encodes.
pub(crate) fn shared_bytes(word: u64) -> u64 {
    word & !MAPS
}

impl Slot<'_> {
    /// Prepares the slot for a process that begins, whose name is `name`, padded with zeros. Clears
    /// the words that the slot's previous process may have left if it was killed.
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
