//! What tests and models do with a table.
#![allow(clippy::unwrap_used)]

use super::Table;
use crate::entry::Value;

pub(super) fn set(table: &Table, index: u32, payload: u64) {
    table.lock(index).unwrap().unlock(Value::inline(payload));
}

/// Empties an entry as a discard does.
pub(super) fn clear(table: &Table, index: u32) {
    if let Some(entry) = table.lock_existing(index, |_| true) {
        entry.unlock(Value::EMPTY);
    }
}

pub(super) fn get(table: &Table, index: u32) -> u64 {
    let entry = table.lock_shared(index, |_| true);
    entry.map_or(0, |entry| entry.value().decode().unwrap_err())
}
