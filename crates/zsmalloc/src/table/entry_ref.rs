//! Entries where they lie.
#![allow(unsafe_code)]

use super::locks::{ReadLock, WriteLock};
use super::{Beside, Table};
use crate::entry::{Busy, Entry};
use std::ptr::NonNull;

/// An entry where it lies, and what lies beside it.
#[derive(Debug)]
pub(super) struct EntryRef<'s, E> {
    pub(super) entry: &'s Entry,
    pub(super) beside: &'s E,
}

impl<E: Beside> EntryRef<'_, E> {
    /// The same for as long as the entry is locked.
    ///
    /// # Safety
    /// The entry is locked by the caller, who uses neither reference after unlocking it.
    unsafe fn locked<'t>(&self, _table: &'t Table<E>) -> EntryRef<'t, E> {
        // SAFETY: the node stays while its entry is locked (zs-W3 of `node`), in memory that stays
        // as long as the table.
        unsafe {
            EntryRef {
                entry: NonNull::from(self.entry).as_ref(),
                beside: NonNull::from(self.beside).as_ref(),
            }
        }
    }

    /// Locks the entry for reading.
    pub(super) fn try_lock_shared<'t>(&self, table: &'t Table<E>) -> Result<ReadLock<'t, E>, Busy> {
        let value = self.entry.try_lock_shared()?;
        // SAFETY: it was locked just now; `ReadLock` lends the references with itself and unlocks
        // at its end.
        Ok(ReadLock::new(unsafe { self.locked(table) }, value))
    }

    /// Locks the entry for a change; its readers are still to be waited for.
    pub(super) fn try_lock_exclusive<'t>(
        &self,
        table: &'t Table<E>,
    ) -> Result<WriteLock<'t, E>, Busy> {
        self.entry.try_lock_exclusive()?;
        // SAFETY: it was locked just now; `WriteLock` lends the references with itself and unlocks
        // at its end.
        Ok(WriteLock::new(table, unsafe { self.locked(table) }))
    }

    /// Locks the entry for a change if it is empty and no one has it locked.
    pub(super) fn try_claim<'t>(&self, table: &'t Table<E>) -> Option<WriteLock<'t, E>> {
        // SAFETY: as above.
        self.entry.try_claim().then(|| WriteLock::new(table, unsafe { self.locked(table) }))
    }
}
