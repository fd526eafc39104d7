//! The shared lock of an entry: alone, or for entries in a row, which are locked ahead of need, so
//! that what is read next comes from memory while the caller does something else.
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
use crate::fork::{Here, expect_here};
use crate::inner::PoolInner;
use crate::memory::prefetch;
use crate::policy::{ENTRIES_AHEAD, LINES_AHEAD};
use crate::table::{ReadLock, Row};
use std::fmt;
use std::ptr::NonNull;

/// The content of an entry. `B` is what is known of an object's bytes: the bytes themselves, or
/// their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<B> {
    /// No object, but 59 bits of the user's; 0 in a new entry.
    Inline(u64),
    /// An object, and four bits of the user's.
    Object {
        /// The object's bytes, or their number.
        bytes: B,
        /// The user's bits, 0 to 15.
        flags: u8,
    },
}

/// The content that an entry had when it was looked at, or before a change. The object may be freed
/// meanwhile, so only its length is known.
pub type Old = Content<usize>;

impl From<Value> for Old {
    fn from(value: Value) -> Self {
        match value.decode() {
            Ok(Location { len, flags, .. }) => Old::Object { bytes: len, flags },
            Err(payload) => Old::Inline(payload),
        }
    }
}

/// An entry locked for reading.
#[derive(Debug)]
pub struct EntryReadGuard<'p> {
    lock: Option<ReadLock<'p>>,
    object: ObjectStart,
}

/// Where the object begins that a locked entry names, if it names one. To find it takes three
/// loads, so it is done once.
#[derive(Clone, Copy, Debug)]
struct ObjectStart(NonNull<u8>);

// SAFETY: the object is looked at as a shared slice would be, by the guard that has this alone.
unsafe impl Send for ObjectStart {}
// SAFETY: as above.
unsafe impl Sync for ObjectStart {}

impl<'p> EntryReadGuard<'p> {
    /// Locks entry `index`.
    // Once in all, though it is called at several places.
    #[inline(never)]
    pub(crate) fn new(here: Here<'p>, index: u32) -> Self {
        Self::new_if(here, index, |_| true)
    }

    /// Locks entry `index`; not one that holds nothing where `admits` says no of its row.
    #[inline(always)]
    pub(crate) fn new_if(here: Here<'p>, index: u32, admits: impl Fn(Row<'_>) -> bool) -> Self {
        let lock = here.entries().lock_shared(index, admits);
        let object = match lock.as_ref().map(|lock| lock.value().decode()) {
            Some(Ok(Location { offset, .. })) => here.memory.locked(offset),
            _ => NonNull::dangling(),
        };
        EntryReadGuard { lock, object: ObjectStart(object) }
    }

    /// The object, if the entry names one.
    #[inline]
    fn object(&self) -> Result<(NonNull<[u8]>, u8), u64> {
        let value = self.lock.as_ref().map_or(Value::EMPTY, ReadLock::value);
        let Location { len, flags, .. } = value.decode()?;
        Ok((NonNull::slice_from_raw_parts(self.object.0, len), flags))
    }

    /// Returns the entry's content.
    ///
    /// # Panics
    /// In a child of the process that pinned the entry, as [`row`](Self::row) does. There a pin can
    /// only be dropped, which does nothing.
    #[inline]
    pub fn content(&self) -> Content<&[u8]> {
        self.lock.iter().for_each(ReadLock::assert_same_process);
        match self.object() {
            Ok((bytes, flags)) => {
                // SAFETY: the entry named the object when it was locked, and is locked as long as
                // this guard is borrowed, in this process: no one writes to it or frees it (zs-M3).
                let bytes = unsafe { bytes.as_ref() };
                Content::Object { bytes, flags }
            }
            Err(payload) => Content::Inline(payload),
        }
    }

    /// What lies beside the entry, if it is there and so is locked.
    #[inline]
    pub fn row(&self) -> Option<Row<'_>> {
        self.lock.as_ref().map(ReadLock::row)
    }

    /// Clears bits of the flags of the pinned object, while others may read it too; does nothing if
    /// the entry holds no object. The pin still returns the flags that it found.
    pub fn clear_flags(&self, bits: u8) {
        if let (Ok(_), Some(entry)) = (self.object(), &self.lock) {
            entry.clear_flags(bits);
        }
    }

    /// Makes the processor fetch the first `lines` lines of what the entry holds, which is to be
    /// read soon.
    #[inline]
    fn prefetch(&self, lines: usize) {
        if let Ok((object, _)) = self.object() {
            prefetch(object, lines);
        }
    }
}

/// Pins of entries with consecutive numbers: see
/// [`EntryPool::read_ahead`](crate::EntryPool::read_ahead).
pub struct EntryIter<'p, W> {
    inner: &'p PoolInner,
    /// The pins taken ahead, in order.
    ahead: [Option<EntryReadGuard<'p>>; ENTRIES_AHEAD],
    /// The entries that are not pinned yet.
    rest: W,
}

impl<'p, W: Iterator<Item = u32>> EntryIter<'p, W> {
    pub(crate) fn new(here: Here<'p>, mut rest: W) -> Self {
        let mut pin = || rest.next().map(|index| EntryReadGuard::new(here, index));
        EntryIter { inner: here.inner(), ahead: [pin(), pin()], rest }
    }
}

impl<'p, W: Iterator<Item = u32>> Iterator for EntryIter<'p, W> {
    type Item = EntryReadGuard<'p>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let here = expect_here(self.inner);
        let last = self.rest.next().map(|index| EntryReadGuard::new(here, index));
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
