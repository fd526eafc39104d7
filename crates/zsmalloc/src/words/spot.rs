//! Words where they lie.
#![allow(unsafe_code)]

use super::held::{Held, Shared};
use super::{Beside, Words};
use crate::word::{Busy, Word};
use std::ptr::NonNull;

/// A word where it lies, and what lies beside it.
#[derive(Debug)]
pub(super) struct Spot<'s, E> {
    pub(super) word: &'s Word,
    pub(super) beside: &'s E,
}

impl<E: Beside> Spot<'_, E> {
    /// The same for as long as the word is locked.
    ///
    /// # Safety
    /// The word is locked by the caller, who uses neither reference after unlocking it.
    unsafe fn locked<'t>(&self, _table: &'t Words<E>) -> Spot<'t, E> {
        // SAFETY: the node stays while its word is locked (zs-W3 of `node`), in memory that stays
        // as long as the table.
        unsafe {
            Spot {
                word: NonNull::from(self.word).as_ref(),
                beside: NonNull::from(self.beside).as_ref(),
            }
        }
    }

    /// Locks the word for reading.
    pub(super) fn lock_shared<'t>(&self, table: &'t Words<E>) -> Result<Shared<'t, E>, Busy> {
        let value = self.word.try_lock_shared()?;
        // SAFETY: it was locked just now; `Shared` lends the references with itself and unlocks at its end.
        Ok(Shared::new(unsafe { self.locked(table) }, value))
    }

    /// Locks the word for a change; its readers are still to be waited for.
    pub(super) fn lock_exclusive<'t>(&self, table: &'t Words<E>) -> Result<Held<'t, E>, Busy> {
        self.word.try_lock_exclusive()?;
        // SAFETY: it was locked just now; `Held` lends the references with itself and unlocks at its end.
        Ok(Held::new(table, unsafe { self.locked(table) }))
    }

    /// Locks the word for a change if it is empty and no one has it locked.
    pub(super) fn claim<'t>(&self, table: &'t Words<E>) -> Option<Held<'t, E>> {
        // SAFETY: as above.
        self.word.try_claim().then(|| Held::new(table, unsafe { self.locked(table) }))
    }
}
