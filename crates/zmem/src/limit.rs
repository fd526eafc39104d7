//! The limit of what a region holds, and what is held back for faults.
//!
//! ```text
//!   held = resident blocks * their bytes + tables + other
//!   tables = words and page tables of chunks that were touched
//!   other = own (stacks, buffers, tables of pieces) + the device's all
//!
//!   0 ----------- enough --- wanted -- full -- limit
//!                 |  reserve |    reserve     |
//! ```
//! Evicting begins above wanted, and ends at enough; above full faults wait for it. In a tree the
//! marks are of what all processes hold: see `in_tree`.

mod in_tree;
mod peak;
mod shared;
mod stuck;

use crate::Error;
use crate::tree::{Member, Tree};
use peak::Peak;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use stuck::Stuck;

/// What the device takes beside its pages while it grows: a segment's maps, a piece's objects.
const GROWTH_BYTES: u64 = 256 << 10;
/// Of a large limit the reserve is this share at least, so that evicting goes on in long steps.
const RESERVE_SHARE: u64 = 64;
/// Tables may take this share of a limit before chunks are closed for it.
const TABLES_SHARE: u64 = 16;
/// Faults of so many bytes at once are more than there are.
const AT_ONCE_MAX: u64 = 1 << 20;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Limit {
    /// `u64::MAX` is none.
    limit: AtomicU64,
    /// What an empty region takes.
    least: AtomicU64,
    /// Bytes that faults may bring at once.
    at_once: u64,
    own: u64,
    unit: usize,
    resident: AtomicUsize,
    other: AtomicU64,
    tables: AtomicU64,
    pub(crate) peak: Peak,
    /// Whether nothing more could be evicted, and when that is tried again.
    pub(crate) stuck: Stuck,
    /// By how much a tree's is passed by what can't go, for each of its large processes.
    beyond: AtomicU64,
    /// How many these were then.
    large: AtomicU64,
    /// The processes that it is the limit of, if it is not this one's alone.
    pub(crate) member: Option<Member>,
}

impl Limit {
    pub(crate) fn new(limit: Option<u64>, own: u64, unit: usize, at_once: usize) -> Self {
        Limit {
            limit: AtomicU64::new(limit.unwrap_or(u64::MAX)),
            least: AtomicU64::new(own),
            at_once: at_once as u64,
            own,
            unit,
            resident: AtomicUsize::new(0),
            other: AtomicU64::new(own),
            tables: AtomicU64::new(0),
            peak: Peak::default(),
            stuck: Stuck::new(),
            beyond: AtomicU64::new(0),
            large: AtomicU64::new(0),
            member: None,
        }
    }

    /// Makes it a limit of all processes of a tree.
    pub(crate) fn share(&mut self, tree: Option<Tree>) {
        self.member = tree.map(Member::new);
    }

    /// Takes note of what the device of an empty region takes, and will take with all its streams;
    /// whether the limit allows that.
    ///
    /// # Errors
    /// As of [`set`](Self::set).
    pub(crate) fn begin(&self, device: u64, device_least: u64) -> Result<(), Error> {
        self.set_device(device);
        self.least.store(self.own + device_least, Relaxed);
        self.set(self.get())
    }

    /// Sets the limit, or lifts it.
    ///
    /// # Errors
    /// [`Error::Limit`]: an empty region and its reserve take more.
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

    /// Returns the least limit that leaves an empty region its reserve, four times.
    fn needed(&self) -> u64 {
        let least = self.least.load(Relaxed);
        // What a reserve is grows by a sixteenth of the limit at most, so four are less than half.
        let (mut low, mut high) = (least, 2 * least);
        while low < high {
            let middle = low.midpoint(high);
            match middle >= least + 4 * self.reserve_of(middle) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        high
    }

    /// What is held back of a limit.
    fn reserve_of(&self, limit: u64) -> u64 {
        // What faults bring at once may be as much as all seats' buffers, but seldom is: a small
        // region has little else.
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
        (self.resident() * self.unit) as u64
    }

    /// What is held beside resident blocks.
    fn beside_resident(&self) -> u64 {
        self.tables.load(Relaxed) + self.other.load(Relaxed)
    }

    pub(crate) fn held(&self) -> u64 {
        self.resident_bytes() + self.beside_resident()
    }

    /// Counts blocks that are about to be resident: as many as asked for, or fewer if there is no
    /// room for more that could be made, but one at least. Threads that claim at once find each
    /// other's.
    pub(crate) fn claim(&self, wanted: usize) -> usize {
        let mut seen = self.resident.load(Relaxed);
        loop {
            let mut units = wanted;
            while units > 1 && !self.stuck.is_braked() && self.is_full(units) {
                units /= 2;
            }
            match self.resident.compare_exchange_weak(seen, seen + units, Relaxed, Relaxed) {
                Ok(_) => return units,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes back what was claimed and not used.
    pub(crate) fn settle(&self, claimed: usize, used: usize) {
        self.sub(claimed - used);
        self.note_peak();
    }

    /// Counts blocks that are about to be resident.
    pub(crate) fn add(&self, units: usize) {
        self.resident.fetch_add(units, Relaxed);
        self.note_peak();
    }

    fn note_peak(&self) {
        self.peak.note(self.told_held(), self.told_resident());
        self.publish();
    }

    /// Counts blocks that are so no more.
    pub(crate) fn sub(&self, units: usize) {
        self.resident.fetch_sub(units, Relaxed);
        self.publish();
    }

    /// Takes account of words and page tables that come with a chunk.
    pub(crate) fn add_tables(&self, bytes: usize) {
        self.tables.fetch_add(bytes as u64, Relaxed);
        self.note_peak();
    }

    /// Takes account of page tables that went.
    pub(crate) fn sub_tables(&self, bytes: usize) {
        self.tables.fetch_sub(bytes as u64, Relaxed);
    }

    /// Whether tables take so much that chunks are worth closing again. That takes some 20 us for
    /// each 2 MiB, and as much once a block of them is touched.
    pub(crate) fn has_many_tables(&self) -> bool {
        self.get().is_none_or(|limit| self.tables.load(Relaxed) > limit / TABLES_SHARE)
    }

    pub(crate) fn set_device(&self, device: u64) {
        self.other.store(self.own + device, Relaxed);
        self.note_peak();
    }

    /// Whether evicting should begin, if so many more blocks come.
    pub(crate) fn is_wanted(&self, more: usize) -> bool {
        self.get().is_some_and(|limit| {
            self.is_above(more, limit - self.reserve_of(limit).min(limit))
                && self.is_more_than_floor(limit)
        })
    }

    /// Whether more is held than the limit allows.
    pub(crate) fn is_passed(&self) -> bool {
        self.get().is_some_and(|limit| self.is_above(0, limit))
    }

    /// Whether so many more blocks would be too many: what the device takes is known a bit late.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.get().is_some_and(|limit| {
            self.is_above(more, limit - (self.reserve_of(limit) / 2).min(limit))
                && self.is_more_than_floor(limit)
        })
    }

    /// Whether more is held than is to be when evicting ends.
    pub(crate) fn is_above_enough(&self) -> bool {
        self.get().is_some_and(|limit| {
            self.is_above(0, limit.saturating_sub(2 * self.reserve_of(limit)))
                && self.is_more_than_floor(limit)
        })
    }
}
