//! The limit of the memory that a region holds, and the reserve below the limit.
//!
//! ```text
//!   held = resident blocks * their bytes + tables + other
//!   tables = words and page tables of chunks that were touched
//!   other = own (stacks, buffers, tables of chunks and clock windows) + all memory of the device
//!
//!   0 ----------- enough --- wanted -- full -- limit
//!                 |  reserve |    reserve     |
//! ```
//! Eviction begins when the held bytes exceed "wanted", and ends at "enough". Above "full", faults
//! wait for evictions. If processes share the limit, these levels apply to the memory of all
//! processes together (`SharedLimit`).

pub(crate) mod evictable;
mod no_progress;
mod shared_limit;

use crate::Error;
use crate::counters::Peak;
use crate::policy::{AT_ONCE_MAX, GROWTH_BYTES, RESERVE_SHARE, TABLES_SHARE};
use no_progress::NoProgress;
pub use shared_limit::{Relatives, SharedLimit, Sum, Usage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The limit of a region, and the bytes that count towards it.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The limit in bytes, or `u64::MAX` if there is no limit.
    limit: AtomicU64,
    /// The bytes that an empty region needs.
    least: AtomicU64,
    /// The maximum number of bytes that simultaneous faults can fill.
    at_once: u64,
    own: u64,
    block: usize,
    resident: AtomicUsize,
    other: AtomicU64,
    tables: AtomicU64,
    pub(crate) peak: Peak,
    /// Whether the last eviction was unsuccessful, and the time of the next attempt.
    pub(crate) no_progress: NoProgress,
    /// The other processes that share the limit, if any.
    pub(crate) shared: Option<Arc<dyn SharedLimit>>,
}

impl Limit {
    pub(crate) fn new(limit: Option<u64>, own: u64, block: usize, at_once: usize) -> Self {
        Limit {
            limit: AtomicU64::new(limit.unwrap_or(u64::MAX)),
            least: AtomicU64::new(own),
            at_once: at_once as u64,
            own,
            block,
            resident: AtomicUsize::new(0),
            other: AtomicU64::new(own),
            tables: AtomicU64::new(0),
            peak: Peak::default(),
            no_progress: NoProgress::new(),
            shared: None,
        }
    }

    /// Makes several processes share this limit.
    pub(crate) fn share(&mut self, shared: Arc<dyn SharedLimit>) {
        self.shared = Some(shared);
        evictable::publish(self);
    }

    /// Records how many bytes the device of an empty region uses now (`device`), and how many it
    /// uses with all its streams (`device_least`). Checks that the limit is sufficient.
    ///
    /// # Errors
    /// The errors of [`set`](Self::set).
    pub(crate) fn begin(&self, device: u64, device_least: u64) -> Result<(), Error> {
        self.set_device(device);
        self.least.store(self.own + device_least, Relaxed);
        self.set(self.get())
    }

    /// Sets or removes the limit.
    ///
    /// # Errors
    /// [`Error::Limit`] if the limit is lower than the memory that an empty region and its reserve
    /// need.
    pub(crate) fn set(&self, limit: Option<u64>) -> Result<(), Error> {
        if let Some(limit) = limit {
            let needed = self.needed();
            if limit < needed {
                return Err(Error::Limit { limit, needed });
            }
        }
        self.limit.store(limit.unwrap_or(u64::MAX), Relaxed);
        Ok(())
    }

    /// Returns the lowest possible limit: the bytes of an empty region plus four times the reserve.
    fn needed(&self) -> u64 {
        let least = self.least.load(Relaxed);
        let with_reserve = |limit| least + 4 * self.reserve_of(limit);
        // The loop ends, because four times the reserve grows by at most n / 4 bytes if the limit
        // grows by n bytes.
        let mut limit = least;
        while with_reserve(limit) > limit {
            limit = with_reserve(limit);
        }
        limit
    }

    /// Returns the reserve of a limit, in bytes.
    fn reserve_of(&self, limit: u64) -> u64 {
        // `at_once` is the size of all contexts' buffers, which is large compared with a small
        // limit. Simultaneous faults seldom fill `at_once` bytes, so at most a share of the limit
        // is reserved for them.
        let at_once = self.at_once.min(limit / 16).min(AT_ONCE_MAX);
        (limit / RESERVE_SHARE).max(GROWTH_BYTES.min(limit / 32)).max(at_once)
    }

    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit != u64::MAX)
    }

    pub(crate) fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        (self.resident() * self.block) as u64
    }

    /// Returns the held bytes without the bytes of resident blocks.
    fn beside_resident(&self) -> u64 {
        self.tables.load(Relaxed) + self.other.load(Relaxed)
    }

    pub(crate) fn held(&self) -> u64 {
        self.resident_bytes() + self.beside_resident()
    }

    /// Counts blocks that are about to become resident, and returns the number of counted blocks.
    /// The number is `wanted`, or smaller (but at least one) if there is too little room. Each
    /// caller sees the claims of concurrent callers.
    pub(crate) fn claim(&self, wanted: usize) -> usize {
        let mut blocks = wanted;
        let claim = |seen| {
            blocks = wanted;
            while blocks > 1 && !self.no_progress.is_braked() && self.is_full(blocks) {
                blocks /= 2;
            }
            Some(seen + blocks)
        };
        let _claimed = self.resident.fetch_update(Relaxed, Relaxed, claim);
        blocks
    }

    /// Subtracts the claimed blocks that did not become resident.
    pub(crate) fn settle(&self, claimed: usize, used: usize) {
        self.sub(claimed - used);
        self.note_peak();
    }

    /// Counts blocks that are about to become resident.
    pub(crate) fn add(&self, blocks: usize) {
        self.resident.fetch_add(blocks, Relaxed);
        self.note_peak();
    }

    fn note_peak(&self) {
        self.peak.note(evictable::process_held(self), evictable::process_resident(self));
        evictable::publish(self);
    }

    /// Subtracts blocks that are no longer resident.
    pub(crate) fn sub(&self, blocks: usize) {
        self.resident.fetch_sub(blocks, Relaxed);
        evictable::publish(self);
    }

    pub(crate) fn add_tables(&self, bytes: usize) {
        self.tables.fetch_add(bytes as u64, Relaxed);
        self.note_peak();
    }

    pub(crate) fn sub_tables(&self, bytes: usize) {
        self.tables.fetch_sub(bytes as u64, Relaxed);
    }

    /// Returns true if chunks should be closed, because page tables and the words of blocks use too
    /// much memory. Closing a chunk of 2 MiB takes about 20 us, and makes the next access to the
    /// chunk 20 us slower.
    pub(crate) fn has_many_tables(&self) -> bool {
        self.get().is_none_or(|limit| self.tables.load(Relaxed) > limit / TABLES_SHARE)
    }

    pub(crate) fn set_device(&self, device: u64) {
        self.other.store(self.own + device, Relaxed);
        self.note_peak();
    }

    /// Returns whether `more` further resident blocks would leave less than `halves` halves of the
    /// reserve free. Returns false if this process holds no more than its floor.
    fn has_passed(&self, more: usize, halves: u64) -> bool {
        self.get().is_some_and(|limit| {
            let mark = limit.saturating_sub(self.reserve_of(limit) * halves / 2);
            evictable::is_above(self, more, mark) && evictable::above_floor(self) > 0
        })
    }

    /// Returns whether eviction should begin before `more` blocks become resident.
    pub(crate) fn is_wanted(&self, more: usize) -> bool {
        self.has_passed(more, 2)
    }

    pub(crate) fn is_passed(&self) -> bool {
        self.get().is_some_and(|limit| evictable::is_above(self, 0, limit))
    }

    /// Returns whether faults must wait before `more` blocks become resident. Half of the reserve
    /// stays free, because growth of the device is measured with a delay.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.has_passed(more, 1)
    }

    /// Returns whether an eviction that has begun should continue.
    pub(crate) fn is_above_enough(&self) -> bool {
        self.has_passed(0, 4)
    }

    /// Records whether the last eviction was unsuccessful.
    pub(crate) fn set_no_progress(&self, has_no_progress: bool) {
        let resident = if has_no_progress { self.resident() } else { usize::MAX };
        self.no_progress.resident.store(resident, Relaxed);
    }

    /// Returns whether the last eviction was unsuccessful, and few blocks have become resident
    /// since then.
    pub(crate) fn has_no_progress(&self) -> bool {
        self.no_progress.is_known_for(self.resident(), self.block)
    }

    /// Returns whether an eviction has a chance of success: the last eviction was successful, or
    /// many blocks have become resident since then, or the pause has ended.
    pub(crate) fn may_try(&self) -> bool {
        !self.has_no_progress() || self.no_progress.left().is_zero()
    }
}
