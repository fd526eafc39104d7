//! Words that are locked, and stay where they are until they no longer are.

use super::spot::Spot;
use super::{Beside, Words};
use crate::since::Since;
use crate::word::{Value, Word};
use std::mem::ManuallyDrop;

/// A word locked for reading.
#[derive(Debug)]
pub(crate) struct Shared<'t, E> {
    word: &'t Word,
    beside: &'t E,
    value: Value,
    since: Since,
}

impl<'t, E> Shared<'t, E> {
    pub(super) fn new(spot: Spot<'t, E>, value: Value) -> Self {
        Shared { word: spot.word, beside: spot.beside, value, since: Since::now() }
    }

    /// # Panics
    /// In a child of the process that locked it.
    #[inline]
    pub(crate) fn expect_here(&self) {
        self.since.expect_here();
    }

    /// What the word says.
    pub(crate) fn value(&self) -> Value {
        self.value
    }

    /// What lies beside it.
    pub(crate) fn beside(&self) -> &E {
        self.expect_here();
        self.beside
    }

    /// Clears bits of the mark of the object it names.
    pub(crate) fn unmark(&self, bits: u8) {
        if !self.since.is_over() {
            self.word.unmark(bits);
        }
    }
}

impl<E> Drop for Shared<'_, E> {
    fn drop(&mut self) {
        if !self.since.is_over() {
            self.word.unlock_shared();
        }
    }
}

/// A word locked for a change; unchanged if dropped.
#[derive(Debug)]
pub(crate) struct Held<'t, E: Beside> {
    table: &'t Words<E>,
    word: &'t Word,
    beside: &'t E,
    since: Since,
}

impl<'t, E: Beside> Held<'t, E> {
    pub(super) fn new(table: &'t Words<E>, spot: Spot<'t, E>) -> Self {
        Held { table, word: spot.word, beside: spot.beside, since: Since::now() }
    }

    /// # Panics
    /// In a child of the process that locked it; so do all that follow.
    #[inline]
    pub(crate) fn expect_here(&self) {
        self.since.expect_here();
    }

    /// Waits for the readers that were there before.
    pub(super) fn wait_for_readers(self) -> Self {
        self.word.wait_for_readers();
        self
    }

    /// What the word says.
    pub(crate) fn value(&self) -> Value {
        self.expect_here();
        self.word.peek()
    }

    /// What lies beside it.
    pub(crate) fn beside(&self) -> &E {
        self.expect_here();
        self.beside
    }

    /// Unlocks the word, which says `value` from then on.
    pub(crate) fn unlock(self, value: Value) {
        self.expect_here();
        // Not forgotten at the end: once unlocked, the word may be gone.
        let held = ManuallyDrop::new(self);
        if value == Value::EMPTY && held.value() != value {
            held.word.empty();
            held.beside.emptied();
            held.table.readers.tally();
        }
        held.word.unlock_exclusive(value);
    }
}

impl<E: Beside> Drop for Held<'_, E> {
    fn drop(&mut self) {
        if !self.since.is_over() {
            self.word.unlock_exclusive(self.word.peek());
        }
    }
}
