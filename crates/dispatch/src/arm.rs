//! The first thread is armed.
//!
//! # Safety
//! All signals are blocked meanwhile, and no other thread runs.
#![allow(unsafe_code)]

use crate::actions::{self, Actions};
use crate::entry::IS_FILTERED;
use crate::error::Error;
use crate::hook::{self, Hook};
use crate::mask::{BYTES, OWNED, of_system};
use crate::pointer;
use crate::thread::{Kind, Thread};
use crate::x86_64::frame::{NO_STACK, Stack};
use crate::x86_64::instructions::{entry, raw_syscall};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

static ACTIONS: Actions = Actions::new();

const PR_GET_SECCOMP: usize = libc::PR_GET_SECCOMP as usize;
const ARCH_SHSTK_STATUS: usize = 0x5005;

/// Makes a call whose errors are numbers.
///
/// # Safety
/// As of the call.
unsafe fn ask(number: i64, args: [usize; 6]) -> Result<(), i32> {
    // SAFETY: the caller vouches for it.
    let result = unsafe { raw_syscall(number as usize, args) };
    if result < 0 { Err(-result as i32) } else { Ok(()) }
}

/// Whether other threads run: the directory of tasks has a link for each, and two.
fn has_other_threads() -> bool {
    // SAFETY: the structure is here, and zeros are a value of it.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::stat(c"/proc/self/task".as_ptr(), &mut found) == 0 && found.st_nlink > 3
    }
}

/// Whether returns are kept on a stack beside: a signal that never returns where it came would end
/// the program.
fn has_shadow_stack() -> bool {
    let mut features = 0usize;
    let args = [ARCH_SHSTK_STATUS, (&raw mut features).addr(), 0, 0, 0, 0];
    // SAFETY: the system writes to `features` alone.
    unsafe { ask(libc::SYS_arch_prctl, args) }.is_ok() && features & 1 != 0
}

/// Sets this thread's mask; the one before.
fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (new, old) = ((&raw const mask).addr(), (&raw mut before).addr());
    // SAFETY: both are here.
    let _ = unsafe {
        ask(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, new, old, BYTES, 0, 0])
    };
    before
}

/// Has `hook` see every system call of this thread, and of all threads and children that it makes.
///
/// # Errors
/// Nothing has changed then: see [`Error`].
///
/// # Safety
/// The hook keeps what [`Hook`] asks of it.
pub unsafe fn arm(hook: &'static dyn Hook) -> Result<(), Error> {
    if hook::get().is_some() {
        return Err(Error::Armed);
    }
    if has_shadow_stack() {
        return Err(Error::ShadowStack);
    }
    if has_other_threads() {
        return Err(Error::Threads);
    }
    let thread = Thread::make(NonNull::from(&ACTIONS), Kind::Thread)
        .map_err(|error| Error::Memory { errno: -error as i32 })?;
    // SAFETY: no thread is armed.
    unsafe { pointer::begin(thread) };
    let mask = set_mask(u64::MAX);
    let result = begin(thread, hook);
    match &result {
        Ok(()) => {
            thread.set_shadow(mask & OWNED);
            set_mask(of_system(mask));
            thread.dispatch();
        }
        Err(_) => {
            set_mask(mask);
            // SAFETY: the system does not know of it.
            unsafe { thread.free() };
        }
    }
    result
}

fn begin(thread: &Thread, hook: &'static dyn Hook) -> Result<(), Error> {
    let mut stack = NO_STACK;
    let (ours, old) = (thread.stack(), (&raw mut stack).addr());
    // SAFETY: both structures are here; the block lives as long as this thread. The first is undone
    // where the second is refused.
    unsafe {
        ask(libc::SYS_sigaltstack, [(&raw const ours).addr(), old, 0, 0, 0, 0])
            .map_err(|errno| Error::Stack { errno })?;
        let armed = thread.arm();
        if armed < 0 {
            let stack = Stack { flags: stack.flags & !libc::SS_ONSTACK, ..stack };
            let _ = ask(libc::SYS_sigaltstack, [(&raw const stack).addr(), 0, 0, 0, 0, 0]);
            return Err(Error::Unsupported { errno: -armed as i32 });
        }
    }
    // SAFETY: the call only asks.
    let filter = unsafe { raw_syscall(libc::SYS_prctl as usize, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) };
    IS_FILTERED.store(filter > 0, Relaxed);
    thread.altstack.set(if stack.flags & libc::SS_DISABLE == 0 { stack } else { NO_STACK });
    hook::set(hook);
    actions::set_entry(entry());
    ACTIONS.take_over();
    Ok(())
}
