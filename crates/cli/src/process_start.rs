//! What a process does before anything else, so that less of its address space is wasted, and less
//! can fail.
//!
//! # Safety
//! The function before `main` runs on the only thread there is, before the standard library has set
//! anything up, and calls nothing but `signal`.
#![allow(unsafe_code)]

use rustix::process::{Resource, getrlimit};
use std::hint::black_box;

/// Bytes of the first thread's stack that are there from the start: it grows as it is touched, and
/// where address space is full a touch beyond it ends the process.
const STACK: usize = 256 << 10;

#[used]
// SAFETY: the section holds pointers to functions of no arguments that are needed, which the C
// library calls in turn.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = leave_faults;

/// Signals of a fault of the program's.
const FAULTS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Has the standard library leave these signals alone: for its message about a stack that overflows
/// it maps memory with each new thread, and ends the process where it gets none. Ignored they end
/// it all the same, without the message.
extern "C" fn leave_faults() {
    for signal in FAULTS {
        // SAFETY: it only sets what becomes of a signal. Where someone else has, as a sanitizer, it
        // stays.
        unsafe {
            let before = libc::signal(signal, libc::SIG_IGN);
            if before != libc::SIG_DFL {
                libc::signal(signal, before);
            }
        }
    }
}

/// To be called first of all.
pub(crate) fn prepare() {
    for signal in FAULTS {
        // SAFETY: as above. The programs that this one starts have them as they were.
        unsafe {
            let before = libc::signal(signal, libc::SIG_DFL);
            if before != libc::SIG_IGN {
                libc::signal(signal, before);
            }
        }
    }
    // Each arena of the C library's takes 64 MiB of address space, and there would be several a
    // processor.
    #[cfg(target_env = "gnu")]
    // SAFETY: there is no other thread yet; what is allocated already stays where it is.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    let stack = getrlimit(Resource::Stack).current;
    if stack.is_none_or(|bytes| bytes >= 2 * STACK as u64) {
        touch_stack();
    }
}

#[inline(never)]
fn touch_stack() {
    black_box([0_u8; STACK]);
}
