//! Waits for a lock of this crate, which other threads hold for microseconds.
//!
//! # Safety
//! The call touches no memory.
#![allow(unsafe_code)]

use crate::x86_64::instructions::raw_syscall;
use std::hint::spin_loop;

/// Rounds in which the thread keeps its processor.
const SPINS: u32 = 100;
/// Rounds after which a debug build ends the process: they take minutes.
const ROUNDS_MAX: u32 = 1 << 28;

/// Waits a moment, in round `round` of a wait.
pub(crate) fn pause(round: u32) {
    debug_assert!(round < ROUNDS_MAX, "a lock of dispatch is never released");
    if round < SPINS {
        return spin_loop();
    }
    // SAFETY: see the module's documentation.
    unsafe { raw_syscall(libc::SYS_sched_yield as usize, [0; 6]) };
}
