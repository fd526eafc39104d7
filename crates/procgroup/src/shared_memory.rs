//! Shared memory (shm, memfd, System V). No process can evict shared memory. A group counts it only
//! once (zm-L18).
//!
//! Each process is charged for its proportional share of the pages, as computed by the kernel. The
//! share changes when other processes map the pages, even while the charged process waits. So one
//! process measures the shares of all processes of the group that map shared memory. Measurements
//! are rare, because the kernel then walks over the page tables of these processes.

use crate::group::ProcessGroup;
use crate::layout::MAPS;
use crate::policy::{WALK_PAUSE, WALK_SHARE, WALK_TIME_MAX};
use crate::process::shared_memory;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use zmem::milliseconds;

/// Measures the shared memory of all processes of the group if the next measurement is due. Opens
/// files in /proc.
pub(crate) fn weigh(group: &ProcessGroup) {
    let (word, now) = (group.head().shared_next, milliseconds());
    let next = word.load(Relaxed);
    if next <= now && word.compare_exchange(next, now + WALK_TIME_MAX, Relaxed, Relaxed).is_ok() {
        let began = Instant::now();
        for (nth, process) in group.processes() {
            weigh_process(group.slot(nth).shared, process);
        }
        let took = began.elapsed().as_millis() as u64;
        word.store(now + took + WALK_PAUSE.max(took * WALK_SHARE), Relaxed);
    }
}

/// Measures the shared memory of a process, and stores the number of bytes in `word`, the word
/// `shared` of the process's slot.
fn weigh_process(word: &AtomicU64, process: u64) {
    let before = word.load(Relaxed);
    if before & MAPS != 0
        && let Some(bytes) = shared_memory(process)
    {
        // Another process may have taken the slot during the measurement.
        let _cleared = word.compare_exchange(before, bytes | MAPS, Relaxed, Relaxed);
    }
}
