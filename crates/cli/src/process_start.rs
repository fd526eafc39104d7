//! What a process does before anything else, so that less of its address space is wasted, and less
//! can fail.
//!
//! # Safety
//! The function before `main` runs on the only thread there is, before the standard library has set
//! anything up, and calls nothing but `signal` and `mallopt`. What is done in `main` may be done at
//! any time.
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
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Has the standard library leave signals of faults alone: for its message about a stack that
/// overflows it maps memory with each new thread, and ends the process where it gets none. Ignored
/// they end it all the same, without the message.
extern "C" fn before_main() {
    set_faults(Faults::Ignored);
    // Each arena of the C library's takes 64 MiB of address space, and there would be several a
    // processor.
    #[cfg(target_env = "gnu")]
    // SAFETY: there is no other thread yet; what is allocated already stays where it is.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// What becomes of signals of a fault of the program's.
#[derive(Clone, Copy)]
enum Faults {
    Ignored,
    Default,
}

/// Sets that, unless someone else has, as a sanitizer.
fn set_faults(faults: Faults) {
    let (from, to) = match faults {
        Faults::Ignored => (libc::SIG_DFL, libc::SIG_IGN),
        Faults::Default => (libc::SIG_IGN, libc::SIG_DFL),
    };
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: it sets what becomes of a signal to one of these two, or back.
        unsafe {
            let before = libc::signal(signal, to);
            if before != from {
                libc::signal(signal, before);
            }
        }
    }
}

/// To be called as `main` begins: programs that this one starts have the signals as they were, and
/// the first thread has its stack.
pub(crate) fn prepare() {
    set_faults(Faults::Default);
    let stack = getrlimit(Resource::Stack).current;
    if stack.is_none_or(|bytes| bytes >= 2 * STACK as u64) {
        touch_stack();
    }
}

#[inline(never)]
fn touch_stack() {
    black_box([0_u8; STACK]);
}
