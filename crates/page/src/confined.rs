//! Processes that may be ended for system calls (seccomp).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Sets whether this process leaves out the system calls that it can do without, such as
/// `process_madvise` and `munlock`: a filter may end the process for them.
pub fn set_confined(is_confined: bool) {
    IS_CONFINED.store(is_confined, Relaxed);
}

/// Returns whether this process leaves such calls out.
pub fn is_confined() -> bool {
    IS_CONFINED.load(Relaxed)
}
