//! The handle slots of a leaf.

use crate::entry::Value;
use crate::sync::Ordering::Relaxed;
use crate::table::{LEAF, Table, is_worn_out};

/// Returns the number of unused handle slots of a leaf.
pub(super) fn room(table: &Table, leaf: u32) -> u32 {
    let used = table.handle_leaf(leaf as u64).map_or(0, |leaf| leaf.used.load(Relaxed));
    (LEAF as u32).saturating_sub(used)
}

/// Returns a bitmap of the slots of a leaf that can be taken.
pub(super) fn free_slots(table: &Table, leaf: u32) -> [u64; LEAF.div_ceil(64)] {
    let mut free = [u64::MAX; LEAF.div_ceil(64)];
    free[LEAF / 64..].fill((1 << (LEAF % 64)) - 1);
    table.for_each_of(leaf as u64, |index, entry, row| {
        if entry.unlocked() != Some(Value::EMPTY) || is_worn_out(row.generation()) {
            let key = index as usize % LEAF;
            free[key / 64] &= !(1 << (key % 64));
        }
    });
    free
}

/// Returns the number of used slots of a leaf, including worn-out slots, and the number of worn-out
/// slots. If `end` is true, first advances the generation of each slot that holds no object.
pub(super) fn count(table: &Table, leaf: u64, end: bool) -> (u32, u32) {
    let (mut used, mut worn_out) = (0, 0);
    table.for_each_of(leaf, |_, entry, row| {
        let is_live = entry.peek().decode().is_ok();
        if end && !is_live && !is_worn_out(row.generation()) {
            row.emptied();
        }
        let is_worn_out = !is_live && is_worn_out(row.generation());
        worn_out += u32::from(is_worn_out);
        used += u32::from(is_live || is_worn_out);
    });
    (used, worn_out)
}
