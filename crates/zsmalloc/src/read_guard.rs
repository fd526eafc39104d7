//! The shared lock of an entry, and an iterator that locks the next entries in advance. While the
//! caller processes one object, the processor fetches the next objects from memory.
//!
//! ```text
//!   entry n           | n + 1                        | n + 2                       | n + 3 ...
//!   returned, read    | pinned, its bytes prefetched | pinned, its first line too  | not touched
//! ```
//! Objects of neighbouring entries lie in zspages of different classes, so the processor can't
//! predict the next address. For the object two entries ahead, only one line is prefetched. This
//! prefetch starts the page table walk, for which all lines of the object would otherwise wait.
//!
//! Entries are pinned in ascending order, so threads that hold pins and wait for the next entry
//! never deadlock.
#![allow(unsafe_code)]

use crate::entry::{Location, Value};
use crate::fork::{RepairedPool, repaired_or_panic};
use crate::inner::PoolInner;
use crate::memory::prefetch;
use crate::policy::{ENTRIES_AHEAD, LINES_AHEAD};
use crate::table::{ReadLock, Row};
use std::fmt;
use std::ptr::NonNull;

/// The content of an entry. `B` is the type of an object's bytes, or of the number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<B> {
    /// A payload of 59 bits that the user chose, or 0 in a new entry. The entry holds no object.
    Inline(u64),
    /// An object, with four flags for the user.
    Object {
        /// The object's bytes, or the number of bytes.
        bytes: B,
        /// The object's flags, 0 to 15.
        flags: u8,
    },
}

/// The content that an entry had when it was read, or before a change. The object may have been
/// freed already, so only its length is known.
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

/// The start of a locked entry's object, or a dangling pointer if the entry holds no object. The
/// pointer is stored because it takes three loads to find the object.
#[derive(Clone, Copy, Debug)]
struct ObjectStart(NonNull<u8>);

// SAFETY: the guard that owns this pointer only reads the object, as through a shared slice.
unsafe impl Send for ObjectStart {}
// SAFETY: the guard that owns this pointer only reads the object, as through a shared slice.
unsafe impl Sync for ObjectStart {}

impl<'p> EntryReadGuard<'p> {
    /// Locks entry `index`.
    // The function is not inlined, so that its callers share one copy of the code.
    #[inline(never)]
    pub(crate) fn new(pool: RepairedPool<'p>, index: u32) -> Self {
        Self::new_if(pool, index, |_| true)
    }

    /// Locks entry `index`, if it exists and `admits` returns true for its row.
    #[inline(always)]
    pub(crate) fn new_if(
        pool: RepairedPool<'p>,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Self {
        let lock = pool.entries().lock_shared(index, admits);
        let object = match lock.as_ref().map(|lock| lock.value().decode()) {
            Some(Ok(Location { offset, .. })) => pool.memory.locked(offset),
            _ => NonNull::dangling(),
        };
        EntryReadGuard { lock, object: ObjectStart(object) }
    }

    /// Returns the entry's object, or the payload as an error if the entry holds no object.
    #[inline]
    fn object(&self) -> Result<(NonNull<[u8]>, u8), u64> {
        let value = self.lock.as_ref().map_or(Value::EMPTY, ReadLock::value);
        let Location { len, flags, .. } = value.decode()?;
        Ok((NonNull::slice_from_raw_parts(self.object.0, len), flags))
    }

    /// Returns the entry's content.
    ///
    /// # Panics
    /// Panics in a child of the process that pinned the entry. [`row`](Self::row) panics there too.
    /// The child can only drop the pin, which has no effect.
    #[inline]
    pub fn content(&self) -> Content<&[u8]> {
        self.lock.iter().for_each(ReadLock::assert_same_process);
        match self.object() {
            Ok((bytes, flags)) => {
                // SAFETY: the entry referred to the object when the entry was locked, and stays
                // locked in this process while this guard is borrowed. So no thread writes or frees
                // the object (zs-M3).
                let bytes = unsafe { bytes.as_ref() };
                Content::Object { bytes, flags }
            }
            Err(payload) => Content::Inline(payload),
        }
    }

    /// Returns the entry's row, or `None` if the entry does not exist and so is not locked.
    #[inline]
    pub fn row(&self) -> Option<Row<'_>> {
        self.lock.as_ref().map(ReadLock::row)
    }

    /// Clears bits of the pinned object's flags, even while other threads read the object. Does
    /// nothing if the entry holds no object. [`content`](Self::content) still returns the flags
    /// that the object had when it was pinned.
    pub fn clear_flags(&self, bits: u8) {
        if let (Ok(_), Some(entry)) = (self.object(), &self.lock) {
            entry.clear_flags(bits);
        }
    }

    /// Prefetches the first `lines` cache lines of the entry's object, which will be read soon.
    #[inline]
    fn prefetch(&self, lines: usize) {
        if let Ok((object, _)) = self.object() {
            prefetch(object, lines);
        }
    }
}

/// An iterator over pins of entries with ascending numbers (see
/// [`EntryPool::read_ahead`](crate::EntryPool::read_ahead)).
pub struct EntryIter<'p, W> {
    inner: &'p PoolInner,
    /// The pins that were not returned yet, in the order of their entries.
    ahead: [Option<EntryReadGuard<'p>>; ENTRIES_AHEAD],
    /// The entries that are not pinned yet.
    rest: W,
}

impl<'p, W: Iterator<Item = u32>> EntryIter<'p, W> {
    pub(crate) fn new(pool: RepairedPool<'p>, mut rest: W) -> Self {
        let mut pin = || rest.next().map(|index| EntryReadGuard::new(pool, index));
        EntryIter { inner: pool.inner(), ahead: [pin(), pin()], rest }
    }
}

impl<'p, W: Iterator<Item = u32>> Iterator for EntryIter<'p, W> {
    type Item = EntryReadGuard<'p>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let pool = repaired_or_panic(self.inner);
        let last = self.rest.next().map(|index| EntryReadGuard::new(pool, index));
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
