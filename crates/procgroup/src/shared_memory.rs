//! Shared memory (shm, memfd, System V), which no process can evict and which counts once in a
//! group (zm-L18).
//!
//! Each process is charged for its proportional share of the pages, as the kernel computes it. The
//! share changes when other processes map the pages, even while the process waits. So one process
//! measures the shares of all processes of the group that map shared memory. The measurement is
//! rare, because the kernel walks over the page tables of these processes.

use crate::group::{NONE, ProcessGroup};
use crate::layout::CLEARED;
use crate::member::GroupMember;
use crate::process;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use zmem::milliseconds;

/// The maximum duration of a walk, in milliseconds. After this time, the process that walks counts
/// as killed.
const LONGEST: u64 = 60_000;
/// The minimum time between two walks, in milliseconds.
const EVERY: u64 = 250;
/// Walks take at most 1/`TIME_SHARE` of the time.
const TIME_SHARE: u64 = 100;
/// A bit in the word of a process that maps shared memory, even if its share is not measured yet.
const MAPS: u64 = 1;

/// Returns the bytes that the word of a slot encodes.
pub(crate) fn shared_bytes(word: u64) -> u64 {
    word & !MAPS
}

impl ProcessGroup {
    /// Returns the bytes of shared memory that count for the process of a slot.
    pub(crate) fn shared(&self, nth: usize) -> u64 {
        shared_bytes(self.slot(nth).shared.load(Relaxed))
    }

    fn weigh_shared_of_all(&self) {
        for nth in self.in_use() {
            let slot = self.slot(nth);
            let (number, before) = (slot.process.load(Relaxed), slot.shared.load(Relaxed));
            if before & MAPS != 0
                && !matches!(number, 0 | CLEARED)
                && let Some(bytes) = process::shared_memory(number)
            {
                // After the measurement, the slot may belong to another process.
                let _cleared = slot.shared.compare_exchange(before, bytes | MAPS, Relaxed, Relaxed);
            }
        }
    }
}

impl GroupMember {
    /// Records that this process maps shared memory.
    pub fn maps_shared(&self) {
        self.maps_shared.store(true, Relaxed);
        self.own_slot().inspect(|slot| _ = slot.shared.fetch_or(MAPS, Relaxed));
    }

    /// Publishes again that this process maps shared memory: a child maps the shared memory of its
    /// parent, and a process whose `execve` failed still maps its shared memory.
    pub(crate) fn begin_shared(&self) {
        if self.maps_shared.load(Relaxed) {
            self.maps_shared();
        }
    }

    /// Returns the bytes of shared memory that count for this process.
    pub(crate) fn shared_bytes(&self) -> u64 {
        let nth = self.slot.load(Relaxed);
        if nth == NONE { 0 } else { self.group.shared(nth) }
    }

    /// Measures the shared memory of all processes of the group, if this process maps some and the
    /// next measurement is due. Opens files.
    pub fn weigh_shared(&self) {
        let is_mapped = self.slot().is_some_and(|slot| slot.shared.load(Relaxed) != 0);
        if !is_mapped {
            return;
        }
        let (word, now) = (self.group.head().shared_next, milliseconds());
        let next = word.load(Relaxed);
        if next <= now && word.compare_exchange(next, now + LONGEST, Relaxed, Relaxed).is_ok() {
            let began = Instant::now();
            self.group.weigh_shared_of_all();
            let took = began.elapsed().as_millis() as u64;
            word.store(now + took + EVERY.max(took * TIME_SHARE), Relaxed);
        }
    }
}
