//! Processes that a filter of system calls (seccomp) may kill.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Sets whether this process avoids the system calls that it can do without, such as
/// `process_madvise` and `munlock`, because a filter may kill the process for them.
pub fn set_confined(is_confined: bool) {
    IS_CONFINED.store(is_confined, Relaxed);
}

/// Returns whether this process avoids such calls.
pub fn is_confined() -> bool {
    IS_CONFINED.load(Relaxed)
}
