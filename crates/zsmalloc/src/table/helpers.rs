//! Functions for tests and models of the table.
#![allow(clippy::unwrap_used, unsafe_code)]

use super::{Table, WriteLock};
use crate::entry::{Location, Value};

/// Stores `payload` in a locked entry, and unlocks the entry.
pub(crate) fn unlock(entry: WriteLock<'_>, payload: u64) {
    // SAFETY: the new value refers to no object.
    unsafe { entry.unlock(Value::inline(payload)) }
}

/// Makes a locked entry refer to an object that is never read, and unlocks the entry.
pub(crate) fn unlock_object(entry: WriteLock<'_>, offset: u64, len: usize) {
    // SAFETY: the table belongs to no pool, so no thread reads or frees the object.
    unsafe { entry.unlock(Value::object(Location { offset, len, flags: 0 })) }
}

pub(super) fn set(table: &Table, index: u32, payload: u64) {
    unlock(table.lock(index).unwrap(), payload);
}

/// Empties an entry as a discard does.
pub(super) fn clear(table: &Table, index: u32) {
    if let Some(entry) = table.lock_existing(index, |_| true) {
        unlock(entry, 0);
    }
}

pub(super) fn get(table: &Table, index: u32) -> u64 {
    let entry = table.lock_shared(index, |_| true);
    entry.map_or(0, |entry| entry.value().decode().unwrap_err())
}
