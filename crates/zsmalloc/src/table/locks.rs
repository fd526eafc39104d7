//! References to entries in their nodes, and locks of entries. A locked entry is not moved.
#![allow(unsafe_code)]

use super::row::Row;
use crate::entry::{Busy, Entry, Value};
use crate::epoch::Epoch;
use page::fork::generation;
use std::mem::ManuallyDrop;

/// Identifies the process that locked an entry or staged an object. A guard that a child of fork
/// inherits locks nothing in the child. The child unlocks all entries, and the pages may have
/// stayed with the parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkStamp(u32);

impl ForkStamp {
    #[inline]
    pub(crate) fn now() -> Self {
        ForkStamp(generation())
    }

    /// Returns whether this process is a child of the process that created the stamp.
    #[inline]
    pub(crate) fn is_stale(self) -> bool {
        self.0 != generation()
    }

    /// # Panics
    /// Panics if [`is_stale`](Self::is_stale) returns true.
    #[inline]
    pub(crate) fn assert_same_process(self) {
        if self.is_stale() {
            stale();
        }
    }
}

#[cold]
fn stale() -> ! {
    panic!("a guard, lock or staged object from before a fork can only be dropped in the child")
}

#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRef<'s> {
    pub(super) entry: &'s Entry,
    pub(super) row: Row<'s>,
}

impl EntryRef<'_> {
    /// Extends the lifetime of the references to that of the table.
    ///
    /// # Safety
    /// The entry belongs to the table of `_readers`, and the caller has locked it. The caller uses
    /// neither reference after unlocking the entry.
    unsafe fn locked<'t>(self, _readers: &'t Epoch) -> EntryRef<'t> {
        // SAFETY: the node is not freed while its entry is locked (zs-W3 of `node`), and the node's
        // memory stays mapped while the table exists.
        unsafe { std::mem::transmute::<EntryRef<'_>, EntryRef<'t>>(self) }
    }

    /// Locks the entry for reading.
    ///
    /// # Safety
    /// The entry belongs to the table of `readers`.
    pub(super) unsafe fn try_lock_shared(self, readers: &Epoch) -> Result<ReadLock<'_>, Busy> {
        let value = self.entry.try_lock_shared()?;
        // SAFETY: the caller guarantees that the entry belongs to the table of `readers`. The entry
        // was just locked. `ReadLock` lends the references only while it exists, and unlocks the
        // entry when dropped.
        let EntryRef { entry, row } = unsafe { self.locked(readers) };
        Ok(ReadLock { entry, row, value, stamp: ForkStamp::now() })
    }

    /// Locks the entry exclusively. The caller must then wait until the entry's readers have left.
    ///
    /// # Safety
    /// The entry belongs to the table of `readers`.
    pub(super) unsafe fn try_lock_exclusive(
        self,
        readers: &Epoch,
    ) -> Result<PendingLock<'_>, Busy> {
        self.entry.try_lock_exclusive()?;
        // SAFETY: the caller guarantees that the entry belongs to the table of `readers`. The entry
        // was just locked. `WriteLock` lends the references only while it exists, and unlocks the
        // entry when dropped.
        let lock = WriteLock::new(readers, unsafe { self.locked(readers) });
        Ok(PendingLock(ManuallyDrop::new(lock)))
    }

    /// Locks the entry exclusively if it is empty and unlocked.
    ///
    /// # Safety
    /// The entry belongs to the table of `readers`.
    pub(super) unsafe fn try_claim(self, readers: &Epoch) -> Option<WriteLock<'_>> {
        // SAFETY: the entry was just locked, and the caller guarantees that it belongs to the table
        // of `readers`.
        self.entry.try_claim().then(|| WriteLock::new(readers, unsafe { self.locked(readers) }))
    }
}

#[derive(Debug)]
pub(crate) struct ReadLock<'t> {
    entry: &'t Entry,
    row: Row<'t>,
    value: Value,
    stamp: ForkStamp,
}

impl ReadLock<'_> {
    /// # Panics
    /// Panics in a child of the process that locked the entry.
    #[inline]
    pub(crate) fn assert_same_process(&self) {
        self.stamp.assert_same_process();
    }

    #[inline]
    pub(crate) fn value(&self) -> Value {
        self.value
    }

    #[inline]
    pub(crate) fn row(&self) -> Row<'_> {
        self.assert_same_process();
        self.row
    }

    pub(crate) fn clear_flags(&self, bits: u8) {
        if !self.stamp.is_stale() {
            self.entry.clear_flags(bits);
        }
    }
}

impl Drop for ReadLock<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.stamp.is_stale() {
            // SAFETY: `EntryRef::try_lock_shared` locked the entry in this process, and this lock
            // no longer uses the entry.
            unsafe { self.entry.unlock_shared() };
        }
    }
}

/// An exclusively locked entry that may still have readers. The entry stays locked if this value is
/// dropped.
pub(super) struct PendingLock<'t>(ManuallyDrop<WriteLock<'t>>);

impl<'t> PendingLock<'t> {
    /// Waits until the readers that locked the entry earlier have left.
    pub(super) fn wait_for_readers(self) -> WriteLock<'t> {
        self.0.entry.wait_for_readers();
        ManuallyDrop::into_inner(self.0)
    }
}

/// An exclusively locked entry without readers. Dropping the lock unlocks the entry and keeps its
/// value.
#[derive(Debug)]
pub(crate) struct WriteLock<'t> {
    /// The readers of the entry's table.
    readers: &'t Epoch,
    entry: &'t Entry,
    row: Row<'t>,
    stamp: ForkStamp,
}

impl<'t> WriteLock<'t> {
    fn new(readers: &'t Epoch, EntryRef { entry, row }: EntryRef<'t>) -> Self {
        WriteLock { readers, entry, row, stamp: ForkStamp::now() }
    }

    /// # Panics
    /// Panics in a child of the process that locked the entry, as all methods below do.
    #[inline]
    pub(crate) fn assert_same_process(&self) {
        self.stamp.assert_same_process();
    }

    pub(crate) fn value(&self) -> Value {
        self.assert_same_process();
        self.entry.peek()
    }

    pub(crate) fn row(&self) -> Row<'_> {
        self.assert_same_process();
        self.row
    }

    /// Sets the entry's value and unlocks the entry.
    ///
    /// # Safety
    /// If `value` refers to an object, the object is complete and lies in the pool of this table,
    /// and no other entry refers to it. If the entry no longer refers to its previous object, the
    /// slot of the previous object belongs to the caller.
    pub(crate) unsafe fn unlock(self, value: Value) {
        self.assert_same_process();
        // `forget` could be called only after the unlock, but the entry may be freed after the
        // unlock.
        let held = ManuallyDrop::new(self);
        if value == Value::EMPTY && held.value() != value {
            // SAFETY: this thread holds the entry's exclusive lock, and all readers have left.
            unsafe { held.entry.empty() };
            held.row.emptied();
            held.readers.count_emptied();
        }
        // SAFETY: this thread holds the entry's exclusive lock, and all readers have left. The
        // caller guarantees that an object of `value` is complete.
        unsafe { held.entry.unlock_exclusive(value) };
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        if !self.stamp.is_stale() {
            // SAFETY: this thread holds the entry's exclusive lock, and all readers have left. The
            // value is unchanged.
            unsafe { self.entry.unlock_exclusive(self.entry.peek()) };
        }
    }
}
