//! Entries in a row, pinned ahead of need: what is read next comes from memory while something else
//! is done.
//!
//! ```text
//!   entry n            | n + 1                         | n + 2                    | n + 3 ...
//!   given out, read   | pinned, its bytes are fetched | pinned, its first one is | not looked at
//! ```
//! Objects of neighbouring entries lie in zspages of their classes, so the processor can't guess
//! where it will go on, as it does in one stream of bytes. To fetch a single line two entries ahead
//! has the page table walked by then, for which the lines behind it would wait.
//!
//! Entries are pinned in ascending order, so those who hold some and wait for the next never wait
//! in a circle.

use crate::EntryPool;
use crate::entry_pool::EntryReadGuard;
use crate::policy::{ENTRIES_AHEAD, LINES_AHEAD};
use std::fmt;

/// Pins of entries with consecutive numbers: see [`EntryPool::read_ahead`].
pub struct EntryIter<'p, W> {
    pool: &'p EntryPool,
    /// The next ones, the first of them first.
    ahead: [Option<EntryReadGuard<'p>>; ENTRIES_AHEAD],
    /// Entries that are not pinned yet.
    rest: W,
}

impl EntryPool {
    /// Locks entries for reading one after the other, each two entries before it is given out, and
    /// has the processor fetch what they hold meanwhile. Who drops each pin before he asks for the
    /// next holds three at most. `entries` ascend.
    pub fn read_ahead<W: Iterator<Item = u32>>(&self, entries: W) -> EntryIter<'_, W> {
        let mut rest = entries;
        let ahead = std::array::from_fn(|_| rest.next().map(|index| self.read(index)));
        EntryIter { pool: self, ahead, rest }
    }
}

impl<'p, W: Iterator<Item = u32>> Iterator for EntryIter<'p, W> {
    type Item = EntryReadGuard<'p>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let last = self.rest.next().map(|index| self.pool.read(index));
        last.iter().for_each(|pin| pin.prefetch(1));
        let [first, second] = &mut self.ahead;
        let next = std::mem::replace(first, std::mem::replace(second, last));
        first.iter().for_each(|pin| pin.prefetch(LINES_AHEAD));
        next
    }
}

impl<W: fmt::Debug> fmt::Debug for EntryIter<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryIter").field("rest", &self.rest).finish_non_exhaustive()
    }
}
