//! Keeps some file descriptors free. So a server with the maximum number of clients can still
//! answer its control socket, serve metrics, and save the disk.

use crate::policy::DESCRIPTORS_FOR_WORK;
use crate::{control, metrics};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::read_dir;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of descriptors that NBD clients must leave free for control, metrics and saves.
pub const RESERVE: usize = control::CLIENTS + metrics::CLIENTS + DESCRIPTORS_FOR_WORK;

/// The number of descriptors that are reserved by [`keep`].
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Reserves `count` descriptors for a mount and other files, so that NBD clients can't use them.
pub fn keep(count: usize) {
    KEPT.store(count, Relaxed);
}

/// Returns the number of descriptors that the server is allowed to open for NBD clients.
pub(crate) fn left_for_clients() -> usize {
    left().saturating_sub(RESERVE + KEPT.load(Relaxed))
}

/// Returns the number of descriptors that this process can still open.
pub fn left() -> usize {
    let open = read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
    most.saturating_sub(open)
}

/// Raises the limit of descriptors so that `wanted` more descriptors can be opened. The system may
/// permit only a lower limit.
pub fn raise(wanted: usize) {
    let (missing, limit) = (wanted.saturating_sub(left()), getrlimit(Resource::Nofile));
    let Some(current) = limit.current.filter(|_| missing > 0) else { return };
    let raised = current.saturating_add(missing as u64).min(limit.maximum.unwrap_or(u64::MAX));
    // If this call fails, `left` returns less than `wanted`.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit });
}
