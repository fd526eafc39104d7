//! Records whether a filter of system calls (seccomp) may kill this process.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Sets whether this process avoids optional system calls, such as `process_madvise` and `munlock`,
/// for which a filter may kill the process.
pub fn set_confined(is_confined: bool) {
    IS_CONFINED.store(is_confined, Relaxed);
}

/// Returns whether this process avoids optional system calls.
pub fn is_confined() -> bool {
    IS_CONFINED.load(Relaxed)
}
