//! Processes that may be ended for system calls (seccomp).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Leaves out the system calls that this process can do without, such as `process_madvise` and
/// `munlock`, from now on: a filter may end the process for them.
pub fn confine() {
    IS_CONFINED.store(true, Relaxed);
}

/// Returns whether [`confine`] was called.
pub fn is_confined() -> bool {
    IS_CONFINED.load(Relaxed)
}
