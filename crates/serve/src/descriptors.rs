//! Keeps some file descriptors free, so that a server with the maximum number of clients still
//! answers its control socket, serves metrics, and saves the disk.

use crate::policy::DESCRIPTORS_FOR_WORK;
use crate::{control, metrics};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::read_dir;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of descriptors that NBD clients must leave free for control, metrics and saves.
pub const RESERVE: usize = control::CLIENTS + metrics::CLIENTS + DESCRIPTORS_FOR_WORK;

/// The number of descriptors that the caller of this crate will open later.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Prevents NBD clients from using `count` descriptors, which a mount and other files will need
/// later.
pub fn keep(count: usize) {
    KEPT.store(count, Relaxed);
}

/// Returns the number of descriptors that NBD clients may open.
pub(crate) fn left_for_clients() -> usize {
    left().saturating_sub(RESERVE + KEPT.load(Relaxed))
}

/// Returns the number of descriptors that this process can still open.
pub fn left() -> usize {
    let open = read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
    most.saturating_sub(open)
}

/// Raises the limit of descriptors, as far as the system permits, so that `wanted` more descriptors
/// can be opened.
pub fn raise(wanted: usize) {
    let (missing, limit) = (wanted.saturating_sub(left()), getrlimit(Resource::Nofile));
    let Some(current) = limit.current.filter(|_| missing > 0) else { return };
    let raised = current.saturating_add(missing as u64).min(limit.maximum.unwrap_or(u64::MAX));
    // If this fails, `left` returns less than `wanted`.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit });
}
