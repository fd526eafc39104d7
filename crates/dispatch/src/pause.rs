//! Waits for a lock of this crate. Other threads hold such a lock for microseconds.
//!
//! # Safety
//! The system call accesses no memory.
#![allow(unsafe_code)]

use crate::policy::{ROUNDS_MAX, SPINS};
use crate::x86_64::instructions::raw_syscall;
use std::hint::spin_loop;

/// Waits briefly, in round `round` of a wait.
pub(crate) fn pause(round: u32) {
    debug_assert!(round < ROUNDS_MAX, "a lock of dispatch is never released");
    if round < SPINS {
        return spin_loop();
    }
    // SAFETY: the call accesses no memory.
    unsafe { raw_syscall(libc::SYS_sched_yield as usize, [0; 6]) };
}
