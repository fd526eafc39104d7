//! The layout of the memory that processes share.
//!
//! ```text
//!   | head: 16 words | slots: 16 words each | rows: 64 words each |   slot n, row n: one process
//!   head: | magic, most held, used, is short, looked at, space, messages, lost: bytes; of which
//!         | process, its bytes | next walk | - |
//!   slot: | process | held | may go | parent | pool: changed, inherited | blocks: the same |
//!         | waits | wanted | peers | shared | name: 2 words | end | - |
//!   row:  | process | what it has done: `Figures`, by their order | - | faults by their times |
//! ```
//! A process writes its own slot and row. A sum of the memory held reads only slots, which are
//! adjacent. A row uses no memory until it is written. The name and the row of a process that ended
//! without a report remain until another process takes the slot.

use crate::figures;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"uzramtr9");
pub(super) const HEAD: usize = 16;
/// The words of a slot, two cache lines: the numbers that other processes add up, and requests to
/// the process.
pub(super) const SLOT: usize = 16;
pub(super) const ROW: usize = figures::WORDS;
/// The maximum number of slots: the head and the slots use less than 64 KiB.
pub(super) const SLOTS: usize = 510;
/// The number of words of a name: 16 bytes, the size of a process's name in the kernel.
pub(super) const NAME: usize = 2;
/// The process number in a slot that is being freed.
pub(super) const CLEARED: u64 = u64::MAX;

/// The parts of shared memory, or of a copy of that memory.
#[derive(Debug)]
pub(super) struct Parts<'a, T> {
    pub(super) head: &'a [T; HEAD],
    pub(super) slots: &'a [[T; SLOT]],
    pub(super) rows: &'a [[T; ROW]],
}

/// The words of the head.
pub(super) struct Head<'a, T> {
    pub(super) magic: &'a T,
    pub(super) peak: &'a T,
    /// The number of slots, from the first one, that were ever used.
    pub(super) used: &'a T,
    pub(super) is_short: &'a T,
    /// The time of the last search for processes that have ended, in milliseconds.
    pub(super) looked: &'a T,
    pub(super) space: &'a T,
    /// The messages that a process of the tree has reported: one bit for each message.
    pub(super) told: &'a T,
    /// The bytes that can't be evicted, if a process found that the limit can't be kept.
    pub(super) lost: &'a T,
    /// The process that holds the most of the bytes in `lost`, and its number of bytes.
    pub(super) lost_most: [&'a T; 2],
    /// The time of the next measurement of shared memory, in milliseconds: see `shared_memory`.
    pub(super) shared_next: &'a T,
}

/// The words of a slot, which describe one process.
pub(super) struct Slot<'a, T> {
    /// The process's number, or 0 if the slot is free.
    pub(super) process: &'a T,
    pub(super) held: &'a T,
    pub(super) may_go: &'a T,
    /// 0, or 1 more than the number of the parent's slot if the process shares pages with its
    /// parent.
    pub(super) parent: &'a T,
    pub(super) pool: Part<'a, T>,
    pub(super) blocks: Part<'a, T>,
    pub(super) waits: &'a T,
    /// The time when the process last found no room, in milliseconds.
    pub(super) wanted: &'a T,
    /// Bits by which this process and processes that access its memory cooperate: see `peers`.
    pub(super) peers: &'a T,
    /// The bytes of shared memory that count for the process: see `shared_memory`.
    pub(super) shared: &'a T,
    /// The name of the process's program, padded with zeros.
    pub(super) name: [&'a T; NAME],
    /// 0, or how the process will end: `EXECUTES` or `UNREPORTED`.
    pub(super) end: &'a T,
}

/// A value of `end`: the process was about to execute a program, or to continue without the
/// runtime.
pub(super) const EXECUTES: u64 = 1;
/// A value of `end`: the process ended by itself, and could not report its figures.
pub(super) const UNREPORTED: u64 = 2;

/// The numbers of one kind of shared pages: see `inherited`.
pub(super) struct Part<'a, T> {
    /// The bytes that have changed in pages that the process's children share.
    pub(super) changed: &'a T,
    pub(super) inherited: &'a T,
}

impl<'a, T> Parts<'a, T> {
    /// Returns the parts of `words`, or `None` if `words` has no room for a slot and a row.
    pub(super) fn of(words: &'a [T]) -> Option<Self> {
        let (head, rest) = words.split_first_chunk()?;
        let count = rest.len() / (SLOT + ROW);
        let (slots, rows) = rest.split_at(count * SLOT);
        let rows = &rows.as_chunks().0[..count];
        (count > 0).then_some(Parts { head, slots: slots.as_chunks().0, rows })
    }
}

impl<'a, T> Head<'a, T> {
    pub(super) fn of(
        [magic, peak, used, is_short, looked, space, told, lost, by, most, next, ..]: &'a [T; HEAD],
    ) -> Self {
        Head {
            magic,
            peak,
            used,
            is_short,
            looked,
            space,
            told,
            lost,
            lost_most: [by, most],
            shared_next: next,
        }
    }
}

impl<'a, T> Slot<'a, T> {
    pub(super) fn of(words: &'a [T; SLOT]) -> Self {
        let [
            process,
            held,
            may_go,
            parent,
            pool,
            pools,
            blocks,
            all,
            waits,
            wanted,
            peers,
            shared,
            first,
            second,
            end,
            ..,
        ] = words;
        let pool = Part { changed: pool, inherited: pools };
        let blocks = Part { changed: blocks, inherited: all };
        let name = [first, second];
        Slot {
            process,
            held,
            may_go,
            parent,
            pool,
            blocks,
            waits,
            wanted,
            peers,
            shared,
            name,
            end,
        }
    }
}
