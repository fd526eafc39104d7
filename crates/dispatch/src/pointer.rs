//! The thread pointers of the program and of this crate's code.
//!
//! ```text
//!   program: its pointer -> entry: Thread::pointer = it, the register = Thread::storage
//!            <- its pointer again before rt_sigreturn, or after a call by which it has changed it
//! ```
//! While this crate's code runs, the thread-pointer register points to this crate's storage (di-9).
//! A program without a C library may set the register to any value.
//!
//! # Safety
//! The system calls below read or set the register. `getauxval` only reads the auxiliary vector.
#![allow(unsafe_code)]

use crate::thread::Thread;
use crate::user;
use crate::x86_64::instructions::{raw_syscall, set_fast};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether this crate reads and sets thread pointers by system calls, even if the kernel permits
/// the instructions for them.
static BY_CALLS: AtomicBool = AtomicBool::new(false);

/// Makes this crate read and set thread pointers by system calls instead of instructions. The
/// setting takes effect when the first thread is armed.
pub fn use_calls_for_pointers() {
    BY_CALLS.store(true, Relaxed);
}

const SET: usize = 0x1002;
const GET: usize = 0x1003;
/// The bit of AT_HWCAP2 that is set if the kernel lets programs use RDFSBASE and WRFSBASE.
const HWCAP2_FSGSBASE: u64 = 2;

/// Records this thread's current thread pointer as the program's.
///
/// # Safety
/// No thread is armed yet.
pub(crate) unsafe fn begin(thread: &Thread) {
    let mut now = 0_usize;
    // SAFETY: the kernel writes only to `now`. The caller guarantees that no thread is armed.
    unsafe {
        let may = libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0;
        set_fast(may && !BY_CALLS.load(Relaxed));
        let args = [GET, (&raw mut now).addr(), 0, 0, 0, 0];
        raw_syscall(libc::SYS_arch_prctl as usize, args);
    }
    thread.pointer.set(now);
}

/// Returns whether an `arch_prctl` call with `option` reads or sets the thread pointer. This crate
/// handles such calls itself.
pub(crate) fn is_about(option: usize) -> bool {
    matches!(option, SET | GET)
}

/// Handles `arch_prctl`.
pub(crate) fn answer(thread: &Thread, [option, value, ..]: [usize; 6]) -> isize {
    if option == GET {
        return user::write(value, &thread.pointer.get()).err().unwrap_or(0);
    }
    // The kernel checks whether the address is valid.
    // SAFETY: no thread-local storage is used until the register has this crate's value again.
    let result = unsafe {
        let set = |to| raw_syscall(libc::SYS_arch_prctl as usize, [SET, to, 0, 0, 0, 0]);
        let result = set(value);
        set(thread.storage.get());
        result
    };
    if result == 0 {
        thread.pointer.set(value);
    }
    result
}
