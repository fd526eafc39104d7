//! Entries locked for reading; one, or some in a row, locked ahead of need: what is read next comes
//! from memory while something else is done.
//!
//! ```text
//!   entry n            | n + 1                         | n + 2                    | n + 3 ...
//!   given out, read   | pinned, its bytes are fetched | pinned, its first one is | not looked at
//! ```
//! Objects of neighbouring entries lie in zspages of their classes, so the processor can't guess
//! where it will go on, as it does in one stream of bytes. To fetch a single line two entries ahead
//! has the page table walked by then, for which the lines behind it would wait.
//!
//! Entries are pinned in ascending order, so threads that hold some and wait for the next never
//! wait in a circle.
#![allow(unsafe_code)]

use crate::entry::{Location, Value};
use crate::fork::expect_here;
use crate::inner::PoolInner;
use crate::memory::prefetch;
use crate::policy::{ENTRIES_AHEAD, LINES_AHEAD};
use crate::table::{ReadLock, Row};
use std::fmt;
use std::ptr::NonNull;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// 59 bits of the user's, 0 in a new entry; no object.
    Inline(u64),
    /// An object, and four bits of the user's beside it.
    Object {
        /// The object.
        bytes: &'a [u8],
        /// The user's bits, 0 to 15.
        flags: u8,
    },
}

/// What an entry held when it was looked at, or before it was given something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// The user's bits; no object.
    Inline(u64),
    /// An object, freed meanwhile.
    Object {
        /// Its bytes.
        len: usize,
        /// The user's bits.
        flags: u8,
    },
}

impl From<Value> for Old {
    fn from(value: Value) -> Self {
        match value.decode() {
            Ok(Location { len, flags, .. }) => Old::Object { len, flags },
            Err(payload) => Old::Inline(payload),
        }
    }
}

/// An entry locked for reading.
#[derive(Debug)]
pub struct EntryReadGuard<'p> {
    /// The object, or the payload.
    held: Result<LockedObject, u64>,
    lock: Option<ReadLock<'p>>,
}

/// Where the object lies that a locked entry names. To find it takes three loads, so it is done
/// once.
#[derive(Debug)]
struct LockedObject {
    bytes: NonNull<[u8]>,
    flags: u8,
}

// SAFETY: its bytes are looked at as a shared slice would be, by the guard that has it alone.
unsafe impl Send for LockedObject {}
// SAFETY: as above.
unsafe impl Sync for LockedObject {}

impl<'p> EntryReadGuard<'p> {
    /// Locks entry `index`; not one that holds nothing where `admits` says no of its row.
    pub(crate) fn new(inner: &'p PoolInner, index: u32, admits: impl Fn(Row<'_>) -> bool) -> Self {
        let lock = inner.entries.lock_shared(index, admits);
        let held = lock.as_ref().map_or(Value::EMPTY, ReadLock::value).decode();
        let held = held.map(|Location { offset, len, flags }| {
            let bytes = inner.memory.locked(offset, len);
            LockedObject { bytes, flags }
        });
        EntryReadGuard { held, lock }
    }

    /// Returns what the entry holds.
    ///
    /// # Panics
    /// In a child of the process that pinned it, as [`row`](Self::row). There a pin can only
    /// be dropped, which does nothing.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        self.lock.iter().for_each(ReadLock::assert_same_process);
        match self.held {
            Ok(LockedObject { bytes, flags }) => {
                // SAFETY: the entry named the object when it was locked, and is locked as long as
                // this guard is borrowed, in this process: no one writes to it or frees it (zs-M3).
                let bytes = unsafe { bytes.as_ref() };
                Content::Object { bytes, flags }
            }
            Err(payload) => Content::Inline(payload),
        }
    }

    /// Returns what lies beside the entry, if the entry exists and so is locked.
    pub fn row(&self) -> Option<Row<'_>> {
        self.lock.as_ref().map(ReadLock::row)
    }

    /// Clears bits of the flags of the object that is pinned, while others read it too; nothing
    /// where none is. The pin goes on to show the flags that it found.
    pub fn clear_flags(&self, bits: u8) {
        if let (Ok(_), Some(entry)) = (&self.held, &self.lock) {
            entry.clear_flags(bits);
        }
    }

    /// Makes the processor fetch the first `lines` lines of what the entry holds, which is to be
    /// read soon.
    #[inline]
    fn prefetch(&self, lines: usize) {
        if let Ok(object) = &self.held {
            prefetch(object.bytes, lines);
        }
    }
}

/// Pins of entries with consecutive numbers: see
/// [`EntryPool::read_ahead`](crate::EntryPool::read_ahead).
pub struct EntryIter<'p, W> {
    inner: &'p PoolInner,
    /// The next ones, the first of them first.
    ahead: [Option<EntryReadGuard<'p>>; ENTRIES_AHEAD],
    /// Entries that are not pinned yet.
    rest: W,
}

impl<'p, W: Iterator<Item = u32>> EntryIter<'p, W> {
    pub(crate) fn new(inner: &'p PoolInner, mut rest: W) -> Self {
        let mut read = |_| Some(EntryReadGuard::new(inner, rest.next()?, |_| true));
        let ahead = std::array::from_fn(&mut read);
        EntryIter { inner, ahead, rest }
    }
}

impl<'p, W: Iterator<Item = u32>> Iterator for EntryIter<'p, W> {
    type Item = EntryReadGuard<'p>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        expect_here(self.inner);
        let last = self.rest.next().map(|index| EntryReadGuard::new(self.inner, index, |_| true));
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
