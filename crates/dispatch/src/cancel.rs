//! Calls that a thread may be cancelled in, as the C library makes them: while one is issued the
//! thread can be cancelled anywhere.
//!
//! ```text
//!   type: asynchronous -> [syscall] -> type as before -> result
//!                            '-- cancelled: unwound from there, and by `unwound` if it is held
//! ```
//! # Safety
//! What may be unwound at any instruction is assembly that says how. It keeps the C convention.
#![allow(unsafe_code)]

use crate::hook::{Direct, hook};
use crate::x86_64::instructions::{Instructions, call_allowed, call_dispatched};
use std::arch::global_asm;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering::Relaxed};

global_asm!(include_str!("cancel.s"), unwound = sym unwound);

// SAFETY: these are the functions above, with the arguments that their comment names.
unsafe extern "C-unwind" {
    fn uzram_dispatch_cancellable(n: usize, args: *const usize, by: Instructions) -> isize;
    fn uzram_dispatch_cancellable_held(n: usize, args: *const usize, by: Instructions) -> isize;
}

/// What a personality is called for, and what it answers: see the unwinder's ABI.
const CLEANUP_PHASE: i32 = 2;
const CONTINUE_UNWIND: i32 = 8;

/// The C library's `__libc_single_threaded`: not 0 while it knows of one thread, and nobody has
/// cancelled that; null where it has none.
static ALONE: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());

/// Finds what [`is_alone`] looks at, which takes locks of the C library's.
pub(crate) fn find_alone() {
    // The C library's own, of which a program may have a copy.
    // SAFETY: the name is a string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__libc_single_threaded".as_ptr()) };
    ALONE.store(found.cast(), Relaxed);
}

/// Whether there is no thread that could be cancelled.
pub(crate) fn is_alone() -> bool {
    // SAFETY: the C library's variable of one byte, which stays.
    unsafe { ALONE.load(Relaxed).as_ref() }.is_some_and(|alone| alone.load(Relaxed) != 0)
}

/// The personality of a call that memory is held for.
extern "C" fn unwound(_: i32, actions: i32, _: u64, _: *mut c_void, _: *mut c_void) -> i32 {
    if actions & CLEANUP_PHASE != 0 {
        hook().let_go();
    }
    CONTINUE_UNWIND
}

/// Makes a call, which is a point of cancellation; the result, or an error's number below 0.
///
/// # Safety
/// As the call itself; it does not return twice. The caller's frames may be unwound.
pub(crate) unsafe fn cancellable(number: usize, args: &[usize; 6], how: Direct) -> isize {
    let args = args.as_ptr();
    // SAFETY: the caller vouches for the call.
    unsafe {
        match how {
            Direct::Issue => uzram_dispatch_cancellable(number, args, call_allowed),
            Direct::Held => uzram_dispatch_cancellable_held(number, args, call_allowed),
            Direct::Dispatch => uzram_dispatch_cancellable(number, args, call_dispatched),
        }
    }
}
