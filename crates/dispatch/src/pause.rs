//! Waits for the locks of this crate, which threads hold for microseconds.

use crate::policy::{ROUNDS_MAX, SPINS};
use crate::system::system;
use std::hint::spin_loop;

/// Spins or yields once: `round` is the number of earlier rounds of the same wait for a lock.
pub(crate) fn pause(round: u32) {
    debug_assert!(round < ROUNDS_MAX, "a lock of dispatch is never released");
    if round < SPINS {
        return spin_loop();
    }
    let _yielded = system(libc::SYS_sched_yield, [0; 6]);
}
