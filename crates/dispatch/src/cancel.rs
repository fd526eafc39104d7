//! Calls that a thread may be cancelled in, as the C library makes them: while one is issued the
//! thread can be cancelled anywhere.
//!
//! ```text
//!   type: asynchronous -> [syscall] -> type as before -> settled -> result
//!                            '-- cancelled: unwound from there, and by `unwound` if it is held
//! ```
//! Who cancels a thread that can be cancelled anywhere says so in its word, and then sends it a
//! signal. This may come once the call has returned, and would end a thread that has forbidden it
//! meanwhile, and makes its next call. So the thread waits for it, as in the C library.
//!
//! # Safety
//! What may be unwound at any instruction is assembly that says how. It keeps the C convention. A
//! thread's word lies in its descriptor, as it did in the first thread's.
#![allow(unsafe_code)]

use crate::hook::{Direct, hook};
use crate::mask::{BYTES, bit};
use crate::user::read_memory;
use crate::x86_64::instructions::{Instructions, call_allowed, call_dispatched, raw_syscall};
use std::arch::global_asm;
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};

global_asm!(include_str!("cancel.s"), unwound = sym unwound, set_type = sym SET_TYPE);

// SAFETY: these are the functions above, with the arguments that their comment names.
unsafe extern "C-unwind" {
    fn uzram_dispatch_cancellable(n: usize, args: *const usize, by: Instructions) -> isize;
    fn uzram_dispatch_cancellable_held(n: usize, args: *const usize, by: Instructions) -> isize;
}

/// What a personality is called for, and what it answers: see the unwinder's ABI.
const CLEANUP_PHASE: i32 = 2;
const CONTINUE_UNWIND: i32 = 8;

/// The C library's `pthread_setcanceltype`, of which a program may have its own.
static SET_TYPE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// Its `__libc_single_threaded`, of which a program may have a copy: not 0 while it knows of one
/// thread, and nobody has cancelled that; null where it has none.
static ALONE: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
/// Where a thread's word lies in its descriptor; 0 where it was not found.
static WORD: AtomicUsize = AtomicUsize::new(0);

/// The word's bits: whether cancelling is disabled, whether it is asynchronous, whether a signal
/// was sent or is about to be, and whether that has come.
const DISABLED: u32 = 1;
const ASYNCHRONOUS: u32 = 2;
const CANCELING: u32 = 4;
const CANCELED: u32 = 8;
/// The signal.
const SIGNAL: i32 = 32;
/// As much of a descriptor is looked at.
const WORDS: usize = 256;

/// So often a thread waits for a signal to interrupt a sleep of 10 ms: for ever, if that comes. A C
/// library whose bits mean something else costs a second then.
const SLEEPS: usize = 100;
static SLEEP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Finds what of the C library's is needed, which takes locks of its.
pub(crate) fn begin() {
    // SAFETY: the names are strings.
    let find = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    ALONE.store(find(c"__libc_single_threaded").cast(), Relaxed);
    let (set_type, set_state) = (find(c"pthread_setcanceltype"), find(c"pthread_setcancelstate"));
    if !set_type.is_null() && !set_state.is_null() {
        WORD.store(find_word(set_state, set_type).unwrap_or(0), Relaxed);
        SET_TYPE.store(set_type, Relaxed);
    }
}

/// Finds the word of a thread that has both bits, by what changes with them. The thread is not
/// cancelled.
fn find_word(set_state: *mut c_void, set_type: *mut c_void) -> Option<usize> {
    type Set = unsafe extern "C-unwind" fn(i32, *mut i32) -> i32;
    // SAFETY: both functions have this type.
    let [set_state, set_type] =
        [set_state, set_type].map(|set| unsafe { transmute::<*mut c_void, Set>(set) });
    // SAFETY: it returns an address.
    let descriptor = unsafe { libc::pthread_self() } as usize;
    let look = |set: Option<(Set, i32)>| {
        let (mut before, mut bytes) = (0, [0; 4 * WORDS]);
        // SAFETY: they write to `before`, and what they change is undone.
        unsafe { set.map(|(set, value)| set(value, &mut before)) };
        let is_read = read_memory(descriptor, &mut bytes);
        // SAFETY: as above.
        unsafe { set.map(|(set, _)| set(before, null_mut())) };
        is_read.then_some(bytes)
    };
    let looks = [look(None)?, look(Some((set_state, 1)))?, look(Some((set_type, 1)))?];
    let word = |look: &[u8], nth: usize| {
        look[4 * nth..4 * nth + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
    };
    let nth = (1..WORDS).find(|&nth| {
        let [is, disabled, asynchronous] = [0, 1, 2].map(|look| word(&looks[look], nth));
        is ^ disabled == DISABLED && is ^ asynchronous == ASYNCHRONOUS
    })?;
    Some(4 * nth)
}

/// Whether a call is no point of cancellation: there is no thread that could be cancelled.
pub(crate) fn is_alone() -> bool {
    // SAFETY: the C library's variable of one byte, which stays.
    let alone = unsafe { ALONE.load(Relaxed).as_ref() };
    SET_TYPE.load(Relaxed).is_null() || alone.is_some_and(|alone| alone.load(Relaxed) != 0)
}

/// The personality of a call that memory is held for.
extern "C" fn unwound(_: i32, actions: i32, _: u64, _: *mut c_void, _: *mut c_void) -> i32 {
    if actions & CLEANUP_PHASE != 0 {
        hook().let_go();
    }
    CONTINUE_UNWIND
}

/// Whether the signal that cancels is blocked, as it is in its handler.
fn is_blocked() -> bool {
    let mut mask = 0u64;
    let args = [libc::SIG_BLOCK as usize, 0, (&raw mut mask).addr(), BYTES, 0, 0];
    // SAFETY: it writes to `mask`.
    unsafe { raw_syscall(libc::SYS_rt_sigprocmask as usize, args) };
    mask & bit(SIGNAL) != 0
}

/// Waits for the signal of who has begun to cancel this thread, unless its handler was interrupted
/// by one that makes this call.
fn settle() {
    let place = WORD.load(Relaxed);
    if place == 0 {
        return;
    }
    // SAFETY: it lies in the descriptor of this thread, which stays.
    let word = unsafe { &*((libc::pthread_self() as usize + place) as *const AtomicU32) };
    let is_awaited = || word.load(Relaxed) & (CANCELING | CANCELED) == CANCELING;
    if !is_awaited() || is_blocked() {
        return;
    }
    let sleep = (&raw const SLEEP).addr();
    for _ in 0..SLEEPS {
        if !is_awaited() {
            return;
        }
        // SAFETY: it reads what is here.
        unsafe { raw_syscall(libc::SYS_nanosleep as usize, [sleep, 0, 0, 0, 0, 0]) };
    }
}

/// Makes a call, which is a point of cancellation; the result, or an error's number below 0.
///
/// # Safety
/// As the call itself; it does not return twice. The caller's frames may be unwound.
pub(crate) unsafe fn cancellable(number: usize, args: &[usize; 6], how: Direct) -> isize {
    let args = args.as_ptr();
    // SAFETY: the caller vouches for the call.
    let result = unsafe {
        match how {
            Direct::Issue | Direct::Try => uzram_dispatch_cancellable(number, args, call_allowed),
            Direct::Held => uzram_dispatch_cancellable_held(number, args, call_allowed),
            Direct::Dispatch => uzram_dispatch_cancellable(number, args, call_dispatched),
        }
    };
    settle();
    result
}
