//! Entries that are locked, and stay where they are until they no longer are.

use super::entry_ref::EntryRef;
use super::{Beside, Table};
use crate::entry::{Entry, Value};
use crate::fork_stamp::ForkStamp;
use std::mem::ManuallyDrop;

/// An entry locked for reading.
#[derive(Debug)]
pub(crate) struct ReadLock<'t, E> {
    entry: &'t Entry,
    beside: &'t E,
    value: Value,
    stamp: ForkStamp,
}

impl<'t, E> ReadLock<'t, E> {
    pub(super) fn new(entry_ref: EntryRef<'t, E>, value: Value) -> Self {
        ReadLock {
            entry: entry_ref.entry,
            beside: entry_ref.beside,
            value,
            stamp: ForkStamp::now(),
        }
    }

    /// # Panics
    /// In a child of the process that locked it.
    #[inline]
    pub(crate) fn assert_same_process(&self) {
        self.stamp.assert_same_process();
    }

    /// What the entry says.
    pub(crate) fn value(&self) -> Value {
        self.value
    }

    /// What lies beside it.
    pub(crate) fn beside(&self) -> &E {
        self.assert_same_process();
        self.beside
    }

    /// Clears bits of the flags of the object it names.
    pub(crate) fn clear_flags(&self, bits: u8) {
        if !self.stamp.is_stale() {
            self.entry.clear_flags(bits);
        }
    }
}

impl<E> Drop for ReadLock<'_, E> {
    fn drop(&mut self) {
        if !self.stamp.is_stale() {
            self.entry.unlock_shared();
        }
    }
}

/// An entry locked for a change; unchanged if dropped.
#[derive(Debug)]
pub(crate) struct WriteLock<'t, E: Beside> {
    table: &'t Table<E>,
    entry: &'t Entry,
    beside: &'t E,
    stamp: ForkStamp,
}

impl<'t, E: Beside> WriteLock<'t, E> {
    pub(super) fn new(table: &'t Table<E>, entry_ref: EntryRef<'t, E>) -> Self {
        WriteLock {
            table,
            entry: entry_ref.entry,
            beside: entry_ref.beside,
            stamp: ForkStamp::now(),
        }
    }

    /// # Panics
    /// In a child of the process that locked it; so do all that follow.
    #[inline]
    pub(crate) fn assert_same_process(&self) {
        self.stamp.assert_same_process();
    }

    /// Waits for the readers that were there before.
    pub(super) fn wait_for_readers(self) -> Self {
        self.entry.wait_for_readers();
        self
    }

    /// What the entry says.
    pub(crate) fn value(&self) -> Value {
        self.assert_same_process();
        self.entry.peek()
    }

    /// What lies beside it.
    pub(crate) fn beside(&self) -> &E {
        self.assert_same_process();
        self.beside
    }

    /// Unlocks the entry, which says `value` from then on.
    pub(crate) fn unlock(self, value: Value) {
        self.assert_same_process();
        // Not forgotten at the end: once unlocked, the entry may be gone.
        let held = ManuallyDrop::new(self);
        if value == Value::EMPTY && held.value() != value {
            held.entry.empty();
            held.beside.emptied();
            held.table.epoch.count_emptied();
        }
        held.entry.unlock_exclusive(value);
    }
}

impl<E: Beside> Drop for WriteLock<'_, E> {
    fn drop(&mut self) {
        if !self.stamp.is_stale() {
            self.entry.unlock_exclusive(self.entry.peek());
        }
    }
}
