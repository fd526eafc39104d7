//! Entries where they lie, and those that are locked, which stay there until they no longer are.
#![allow(unsafe_code)]

use super::row::Row;
use crate::entry::{Busy, Entry, Value};
use crate::epoch::Epoch;
use page::fork::generation;
use std::mem::ManuallyDrop;

/// The process that locked or staged something, as forks go. What comes over a fork on the stack of
/// the thread that forked, or wherever the child finds it, holds nothing there: the child repairs
/// all entries as if no one had them, and pages may be the parent's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkStamp(u32);

impl ForkStamp {
    #[inline]
    pub(crate) fn now() -> Self {
        ForkStamp(generation())
    }

    /// Returns whether this is a child of the process that it was locked in.
    #[inline]
    pub(crate) fn is_stale(self) -> bool {
        self.0 != generation()
    }

    /// # Panics
    /// When it is over.
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

/// An entry where it lies, and its row.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRef<'s> {
    pub(super) entry: &'s Entry,
    pub(super) row: Row<'s>,
}

impl EntryRef<'_> {
    /// The same for as long as the entry is locked.
    ///
    /// # Safety
    /// The entry is of the table of `_readers` and locked by the caller, which uses neither
    /// reference after unlocking it.
    unsafe fn locked<'t>(self, _readers: &'t Epoch) -> EntryRef<'t> {
        // SAFETY: the node stays while its entry is locked (zs-W3 of `node`), in memory that stays
        // as long as the table.
        unsafe { std::mem::transmute::<EntryRef<'_>, EntryRef<'t>>(self) }
    }

    /// Locks the entry for reading.
    ///
    /// # Safety
    /// It is an entry of the table whose `readers` those are.
    pub(super) unsafe fn try_lock_shared(self, readers: &Epoch) -> Result<ReadLock<'_>, Busy> {
        let value = self.entry.try_lock_shared()?;
        // SAFETY: it is of that table, as the caller says, and was locked just now; `ReadLock`
        // lends the references with itself and unlocks at its end.
        let EntryRef { entry, row } = unsafe { self.locked(readers) };
        Ok(ReadLock { entry, row, value, stamp: ForkStamp::now() })
    }

    /// Locks the entry for a change; its readers are still to be waited for.
    ///
    /// # Safety
    /// It is an entry of the table whose `readers` those are.
    pub(super) unsafe fn try_lock_exclusive(
        self,
        readers: &Epoch,
    ) -> Result<PendingLock<'_>, Busy> {
        self.entry.try_lock_exclusive()?;
        // SAFETY: it is of that table, as the caller says, and was locked just now; `WriteLock`
        // lends the references with itself and unlocks at its end.
        let lock = WriteLock::new(readers, unsafe { self.locked(readers) });
        Ok(PendingLock(ManuallyDrop::new(lock)))
    }

    /// Locks the entry for a change if it is empty and no one has it locked.
    ///
    /// # Safety
    /// It is an entry of the table whose `readers` those are.
    pub(super) unsafe fn try_claim(self, readers: &Epoch) -> Option<WriteLock<'_>> {
        // SAFETY: as above.
        self.entry.try_claim().then(|| WriteLock::new(readers, unsafe { self.locked(readers) }))
    }
}

/// An entry locked for reading.
#[derive(Debug)]
pub(crate) struct ReadLock<'t> {
    entry: &'t Entry,
    row: Row<'t>,
    value: Value,
    stamp: ForkStamp,
}

impl ReadLock<'_> {
    /// # Panics
    /// In a child of the process that locked it.
    #[inline]
    pub(crate) fn assert_same_process(&self) {
        self.stamp.assert_same_process();
    }

    /// What the entry says.
    #[inline]
    pub(crate) fn value(&self) -> Value {
        self.value
    }

    /// What lies beside it.
    #[inline]
    pub(crate) fn row(&self) -> Row<'_> {
        self.assert_same_process();
        self.row
    }

    /// Clears bits of the flags of the object it names.
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
            // SAFETY: `EntryRef::try_lock_shared` entered, in this process, and this is the end.
            unsafe { self.entry.unlock_shared() };
        }
    }
}

/// An entry locked for a change whose readers may still be there: it stays locked if dropped.
pub(super) struct PendingLock<'t>(ManuallyDrop<WriteLock<'t>>);

impl<'t> PendingLock<'t> {
    /// Waits for the readers that were there before.
    pub(super) fn wait_for_readers(self) -> WriteLock<'t> {
        self.0.entry.wait_for_readers();
        ManuallyDrop::into_inner(self.0)
    }
}

/// An entry locked for a change, which no one reads; unchanged if dropped.
#[derive(Debug)]
pub(crate) struct WriteLock<'t> {
    /// Its table's.
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
    /// In a child of the process that locked it; so do all that follow.
    #[inline]
    pub(crate) fn assert_same_process(&self) {
        self.stamp.assert_same_process();
    }

    /// What the entry says.
    pub(crate) fn value(&self) -> Value {
        self.assert_same_process();
        self.entry.peek()
    }

    /// Returns what lies beside it.
    pub(crate) fn row(&self) -> Row<'_> {
        self.assert_same_process();
        self.row
    }

    /// Unlocks the entry, which says `value` from then on.
    ///
    /// # Safety
    /// An object that `value` names lies there whole, in the pool of this table, and no other entry
    /// names it. Who has the place of one that the entry names no longer is the caller.
    pub(crate) unsafe fn unlock(self, value: Value) {
        self.assert_same_process();
        // Not forgotten at the end: once unlocked, the entry may be gone.
        let held = ManuallyDrop::new(self);
        if value == Value::EMPTY && held.value() != value {
            // SAFETY: this is the entry's exclusive lock, and its readers were waited for.
            unsafe { held.entry.empty() };
            held.row.emptied();
            held.readers.count_emptied();
        }
        // SAFETY: as above; and as the caller says.
        unsafe { held.entry.unlock_exclusive(value) };
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        if !self.stamp.is_stale() {
            // SAFETY: as in `unlock`; it says what it said.
            unsafe { self.entry.unlock_exclusive(self.entry.peek()) };
        }
    }
}
