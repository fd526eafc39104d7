//! What tests and models do with a table.
#![allow(clippy::unwrap_used)]

use super::Words;
use crate::word::Value;

/// The seed of a test, printed: `UZRAM_SEED`, or its own.
#[cfg(not(loom))]
pub(crate) fn seed(own: u64) -> u64 {
    let seed = std::env::var("UZRAM_SEED").map_or(own, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    seed
}

pub(super) type Table = Words<()>;

pub(super) fn set(table: &Table, index: u32, payload: u64) {
    table.lock_or_make(index).unwrap().unlock(Value::inline(payload));
}

/// Empties a word as a discard does.
pub(super) fn clear(table: &Table, index: u32) {
    if let Some(word) = table.lock_exclusive(index, |_| true) {
        word.unlock(Value::EMPTY);
    }
}

pub(super) fn get(table: &Table, index: u32) -> u64 {
    let word = table.lock_shared(index, |_| true);
    word.map_or(0, |word| word.value().decode().unwrap_err())
}
