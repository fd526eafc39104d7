//! Handle slots: entries with a generation, given out and taken back, behind the handles of a
//! [`Pool`](crate::Pool).
//!
//! ```text
//!   leaf:  | floor | used |   12 bytes per slot in its nodes: the entry, and the generation
//!   shard: leaf, a bit per slot of it that was free when the shard took it, and the 24 slots
//!          that came free last; there are 8 shards, for the threads
//! ```
//! A slot is free if its entry is empty and unlocked, and it is taken by locking that entry: shards
//! and counts only say where to look. A slot's generation grows when its entry becomes empty,
//! before that is unlocked; at the last generation the slot is worn out. A free slot may go from
//! the table, which keeps its leaf's floor.
//!
//! Lock order: shard, the table's.

use crate::Error;
use crate::entry::Value;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering::Relaxed, thread_number};
use crate::table::{GENERATION_MAX, LEAF, Table, WriteLock, is_worn_out};
use page::fork::Step;

/// Handle slots are taken from a leaf that has room for so many, or from a new one: that pays for
/// looking at all.
const ROOM_MIN: u32 = if cfg!(loom) { 1 } else { 64 };
const SHARDS: usize = if cfg!(loom) { 1 } else { 8 };
/// Handle slots that a shard remembers.
const RECENT: usize = 24;
/// Leaves there can be: the last slot of the one after has a number that no entry has.
const LEAVES: u32 = ((1 << 32) / LEAF as u64 - 1) as u32;
const NO_LEAF: u32 = u32::MAX;

/// Where threads look for free slots.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    free: Mutex<Free>,
    /// Read by others, so that they take another.
    leaf: AtomicU32,
}

/// Handle slots that may be free.
#[derive(Debug, Default)]
struct Free {
    /// Those not looked at yet, of the shard's leaf.
    of_leaf: [u64; LEAF.div_ceil(64)],
    /// Those that came free last, whose entries are at hand: the first so many.
    recent: [u32; RECENT],
    count: usize,
}

impl Free {
    fn push_recent(&mut self, index: u32) {
        if let Some(place) = self.recent.get_mut(self.count) {
            *place = index;
            self.count += 1;
        }
    }

    fn pop_recent(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        Some(self.recent[self.count])
    }

    fn pop_of_leaf(&mut self, leaf: u32) -> Option<u32> {
        let nth = self.of_leaf.iter().position(|&bits| bits != 0)?;
        let key = nth as u32 * 64 + self.of_leaf[nth].trailing_zeros();
        self.of_leaf[nth] &= self.of_leaf[nth] - 1;
        Some(leaf * LEAF as u32 + key)
    }
}

/// Which entries of a table are given out as handle slots.
#[derive(Debug)]
pub(crate) struct HandleSlots {
    shards: Box<[Shard]>,
    /// Leaves that were ever taken.
    opened: AtomicU32,
    /// Leaves below had no room when it was last looked for.
    lowest: AtomicU32,
    worn_out: AtomicU64,
}

impl HandleSlots {
    /// Handle slots there can be.
    pub(crate) const LEN: u64 = LEAVES as u64 * LEAF as u64;

    /// None is given out.
    pub(crate) fn new() -> Self {
        let shard = || Shard { leaf: AtomicU32::new(NO_LEAF), ..Shard::default() };
        HandleSlots {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            opened: AtomicU32::new(0),
            lowest: AtomicU32::new(0),
            worn_out: AtomicU64::new(0),
        }
    }

    /// Takes a free slot of the table: its number and its entry, which is empty.
    /// [`mark_used`](Self::mark_used) is to be told before it holds something.
    pub(crate) fn claim<'t>(&self, table: &'t Table) -> Result<(u32, WriteLock<'t>), Error> {
        let shard = self.shard();
        let mut free = shard.free.lock();
        loop {
            let leaf = shard.leaf.load(Relaxed);
            let Some(index) = free.pop_recent().or_else(|| free.pop_of_leaf(leaf)) else {
                let (leaf, bits) = self.leaf_with_room(table, shard)?;
                shard.leaf.store(leaf, Relaxed);
                free.of_leaf = bits;
                continue;
            };
            let entry = table.claim(index)?;
            if let Some(entry) = entry.filter(|entry| !is_worn_out(entry.row().generation())) {
                return Ok((index, entry));
            }
        }
    }

    fn shard(&self) -> &Shard {
        &self.shards[thread_number() % SHARDS]
    }

    /// Finds a leaf for a shard: the lowest with room that no other shard has, else a new one, else
    /// any.
    fn leaf_with_room(
        &self,
        table: &Table,
        shard: &Shard,
    ) -> Result<(u32, [u64; LEAF.div_ceil(64)]), Error> {
        let opened = self.opened.load(Relaxed);
        let has_room = |leaf: &u32| room(table, *leaf) >= ROOM_MIN;
        let from = self.lowest.load(Relaxed);
        let lowest = (from..opened).find(has_room).unwrap_or(opened);
        // Refused where a handle slot below was given back meanwhile.
        let _ = self.lowest.compare_exchange(from, lowest, Relaxed, Relaxed);
        let others = |leaf: &u32| {
            let is_its = |other: &&Shard| other.leaf.load(Relaxed) == *leaf;
            !self.shards.iter().filter(is_its).any(|other| !std::ptr::eq(other, shard))
        };
        let found = (lowest..opened).filter(has_room).filter(others);
        let mut found = found.map(|leaf| (leaf, free_slots(table, leaf)));
        if let Some(found) = found.find(|(_, free)| free.iter().any(|&bits| bits != 0)) {
            return Ok(found);
        }
        let next = |leaf| (leaf < LEAVES).then_some(leaf + 1);
        if let Ok(leaf) = self.opened.fetch_update(Relaxed, Relaxed, next) {
            return Ok((leaf, free_slots(table, leaf)));
        }
        let all = (0..LEAVES).map(|leaf| (leaf, free_slots(table, leaf)));
        let mut rest = all.filter(|(_, free)| free.iter().any(|&bits| bits != 0));
        let (index, len) = (u32::MAX as u64, u32::MAX as u64);
        rest.next().ok_or(Error::Index { index, len })
    }

    /// Notes that a handle slot that was taken is about to hold an object.
    pub(crate) fn mark_used(&self, table: &Table, index: u32) {
        if let Some(leaf) = table.handle_leaf(index as u64 / LEAF as u64) {
            leaf.used.fetch_add(1, Relaxed);
        }
    }

    /// Notes that a handle slot holds none any more, whose generation had been `generation`.
    pub(crate) fn mark_free(&self, table: &Table, index: u32, generation: u32) {
        if generation == GENERATION_MAX {
            self.worn_out.fetch_add(1, Relaxed);
            return;
        }
        let nth = index / LEAF as u32;
        if let Some(leaf) = table.handle_leaf(nth as u64) {
            let used = leaf.used.fetch_sub(1, Relaxed) - 1;
            let lowest = self.lowest.load(Relaxed);
            if nth < lowest && used + ROOM_MIN <= LEAF as u32 {
                self.lowest.fetch_min(nth, Relaxed);
            }
        }
        // The thread that has the shard does without this slot.
        if let Some(mut free) = self.shard().free.try_lock() {
            free.push_recent(index);
        }
    }

    /// Handle slots that hold an object.
    pub(crate) fn live(&self, table: &Table) -> u64 {
        let used = table.handle_leaves().map(|(_, leaf)| leaf.used.load(Relaxed) as u64);
        used.sum::<u64>().saturating_sub(self.worn_out.load(Relaxed))
    }

    /// Holds the shards still over a fork: no slot is being given out. Before the table is.
    pub(crate) fn at_fork(&self, step: Step) {
        self.shards.iter().for_each(|shard| shard.free.at_fork(step));
    }

    /// Counts anew in a child, whose table is repaired.
    pub(crate) fn repair(&self, table: &Table) {
        // Handle slots without an object are free, whatever a lost thread had them for; it may not
        // have come to ending their generation, or to counting them.
        let mut all_worn_out = 0;
        for (nth, leaf) in table.handle_leaves() {
            let (used, worn_out) = count(table, nth, true);
            leaf.used.store(used, Relaxed);
            all_worn_out += worn_out as u64;
        }
        self.worn_out.store(all_worn_out, Relaxed);
        self.lowest.store(0, Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.shards)
    }

    /// Asserts that the counts are those of the table.
    pub(crate) fn check(&self, table: &Table) {
        let mut all_worn_out = 0;
        for (nth, leaf) in table.handle_leaves() {
            let (used, worn_out) = count(table, nth, false);
            assert_eq!(leaf.used.load(Relaxed), used, "slots used of leaf {nth}");
            let floor = leaf.floor();
            assert!(floor <= GENERATION_MAX, "leaf {nth} begins with generation {floor}");
            all_worn_out += worn_out as u64;
        }
        assert_eq!(self.worn_out.load(Relaxed), all_worn_out, "slots worn out");
    }
}

/// Handle slots of a leaf that are not used.
fn room(table: &Table, leaf: u32) -> u32 {
    let used = table.handle_leaf(leaf as u64).map_or(0, |leaf| leaf.used.load(Relaxed));
    (LEAF as u32).saturating_sub(used)
}

/// Returns a bit for each slot of a leaf that can be taken.
fn free_slots(table: &Table, leaf: u32) -> [u64; LEAF.div_ceil(64)] {
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

/// Number and generation of the first slots whose entries name objects.
pub(crate) fn live_slots(table: &Table, most: usize) -> Vec<(u32, u32)> {
    let mut live = Vec::new();
    table.for_each(|index, entry, row| {
        if live.len() < most && entry.peek().decode().is_ok() {
            live.push((index, row.generation()));
        }
    });
    live
}

/// Counts the slots of a leaf that are used, and those worn out among them. Before that, the
/// generation of those that hold nothing ends, if `end` says so.
fn count(table: &Table, leaf: u64, end: bool) -> (u32, u32) {
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

#[cfg(all(test, not(loom)))]
mod tests;
