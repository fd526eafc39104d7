//! Handle slots: entries with a generation, which are allocated and freed for the handles of a
//! [`Pool`](crate::Pool).
//!
//! ```text
//!   leaf:  | floor | used |   12 bytes per slot in its nodes: the entry, and the generation
//!   shard: leaf, a bit per slot of it that was free when the shard took it, and the 24 slots
//!          that were freed last; there are 8 shards, for the threads
//! ```
//! A slot is free if its entry is empty and unlocked. A thread takes a free slot by locking the
//! slot's entry. Shards and counts only speed up the search for free slots. A slot's generation
//! grows when its entry becomes empty, before the entry is unlocked. After the last generation the
//! slot is *worn out*, and is not used again. A free slot may be removed from the table. The table
//! keeps the *floor* of the slot's leaf: the first generation of a slot that is created again.
//!
//! The lock order is shard, table.

mod leaf;

use crate::Error;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering::Relaxed, thread_number};
use crate::table::policy::{HANDLE_SHARDS, LEAF_ROOM_MIN, RECENT_SLOTS};
use crate::table::{GENERATION_MAX, LEAF, Table, WriteLock, is_worn_out};
use leaf::{count, free_slots, room};
use page::fork::Step;

/// The maximum number of leaves. The next leaf would contain the number `u32::MAX`, which no entry
/// has.
const LEAVES: u32 = u32::MAX / LEAF as u32;
const NO_LEAF: u32 = u32::MAX;

/// The hints of a shard about handle slots that may be free.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    free: Mutex<Free>,
    /// The number of the shard's leaf. Other shards read this number, so that they take other
    /// leaves.
    leaf: AtomicU32,
}

/// Handle slots that may be free.
#[derive(Debug, Default)]
struct Free {
    /// A bit for each slot of the shard's leaf, set if the slot may be free and was not tried yet.
    of_leaf: [u64; LEAF.div_ceil(64)],
    /// The numbers of the slots that were freed most recently. The entries of these slots are
    /// likely in the processor's caches. The first `count` numbers are valid.
    recent: [u32; RECENT_SLOTS],
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

/// The allocator of handle slots, which are the entries of a table.
#[derive(Debug)]
pub(crate) struct HandleSlots {
    shards: Box<[Shard]>,
    /// The number of leaves that shards have taken so far.
    opened: AtomicU32,
    /// The leaf at which a search begins. No leaf with a lower number had a free slot at the last
    /// search.
    lowest: AtomicU32,
    worn_out: AtomicU64,
}

impl HandleSlots {
    pub(crate) const LEN: u64 = LEAVES as u64 * LEAF as u64;

    /// Returns an allocator without used slots.
    pub(crate) fn new() -> Self {
        let shard = || Shard { leaf: AtomicU32::new(NO_LEAF), ..Shard::default() };
        HandleSlots {
            shards: std::iter::repeat_with(shard).take(HANDLE_SHARDS).collect(),
            opened: AtomicU32::new(0),
            lowest: AtomicU32::new(0),
            worn_out: AtomicU64::new(0),
        }
    }

    /// Locks a free slot of the table. Returns the slot's number and the lock of its empty entry.
    /// The caller must call [`mark_used`](Self::mark_used) before it stores an object in the entry.
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
        &self.shards[thread_number() % HANDLE_SHARDS]
    }

    /// Finds a leaf for a shard. The first choice is the lowest leaf that has enough free slots and
    /// that no other shard has taken. The second choice is a new leaf, and the last choice is any
    /// leaf with a free slot.
    fn leaf_with_room(
        &self,
        table: &Table,
        shard: &Shard,
    ) -> Result<(u32, [u64; LEAF.div_ceil(64)]), Error> {
        let opened = self.opened.load(Relaxed);
        let has_room = |leaf: &u32| room(table, *leaf) >= LEAF_ROOM_MIN;
        let from = self.lowest.load(Relaxed);
        let lowest = (from..opened).find(has_room).unwrap_or(opened);
        // The exchange fails if another thread frees a slot below `lowest` at the same time.
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

    /// Counts a handle slot as used, before an object is stored in it.
    pub(crate) fn mark_used(&self, table: &Table, index: u32) {
        if let Some(leaf) = table.handle_leaf(index as u64 / LEAF as u64) {
            leaf.used.fetch_add(1, Relaxed);
        }
    }

    /// Counts a handle slot as free after its object was freed. `generation` is the generation of
    /// the freed object's handle.
    pub(crate) fn mark_free(&self, table: &Table, index: u32, generation: u32) {
        if generation == GENERATION_MAX {
            self.worn_out.fetch_add(1, Relaxed);
            return;
        }
        let nth = index / LEAF as u32;
        if let Some(leaf) = table.handle_leaf(nth as u64) {
            let used = leaf.used.fetch_sub(1, Relaxed) - 1;
            let lowest = self.lowest.load(Relaxed);
            if nth < lowest && used + LEAF_ROOM_MIN <= LEAF as u32 {
                self.lowest.fetch_min(nth, Relaxed);
            }
        }
        // If another thread holds the shard's lock, this slot is not added to the shard's hints.
        if let Some(mut free) = self.shard().free.try_lock() {
            free.push_recent(index);
        }
    }

    /// Returns the number of handle slots that hold an object.
    pub(crate) fn live(&self, table: &Table) -> u64 {
        let used = table.handle_leaves().map(|(_, leaf)| leaf.used.load(Relaxed) as u64);
        used.sum::<u64>().saturating_sub(self.worn_out.load(Relaxed))
    }

    /// Locks the shards before a fork, or unlocks them after the fork. No thread allocates a slot
    /// during the fork. The shards are locked before the table.
    pub(crate) fn at_fork(&self, step: Step) {
        self.shards.iter().for_each(|shard| shard.free.at_fork(step));
    }

    /// In a child of fork, rebuilds the counts. The table is already repaired.
    pub(crate) fn repair(&self, table: &Table) {
        // Handle slots without an object are free, even those that a lost thread had taken. The
        // lost thread may not yet have advanced the generations of these slots, or counted the
        // slots.
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

    /// Asserts that the counts match the table.
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

/// Returns the numbers and generations of the first `most` slots whose entries hold objects.
pub(crate) fn live_slots(table: &Table, most: usize) -> Vec<(u32, u32)> {
    let mut live = Vec::new();
    table.for_each(|index, entry, row| {
        if live.len() < most && entry.peek().decode().is_ok() {
            live.push((index, row.generation()));
        }
    });
    live
}

#[cfg(all(test, not(loom)))]
mod tests;
