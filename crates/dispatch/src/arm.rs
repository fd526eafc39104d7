//! Arming the first thread.
//!
//! # Safety
//! While a thread is being armed, all signals are blocked, and no other thread runs.
#![allow(unsafe_code)]

use crate::actions::{self, Actions};
use crate::entry::IS_FILTERED;
use crate::error::Error;
use crate::hook::{self, Hook};
use crate::mask::{BYTES, OWNED, of_system};
use crate::pointer;
use crate::selector;
use crate::system::system;
use crate::thread::{Kind, Thread};
use crate::x86_64::frame::{NO_STACK, Stack};
use crate::x86_64::instructions::entry;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

static ACTIONS: Actions = Actions::new();

const ARCH_SHSTK_STATUS: usize = 0x5005;

/// Returns whether other threads run. The link count of /proc/self/task is 2 plus the number of
/// threads.
fn has_other_threads() -> bool {
    // SAFETY: the structure is local, and zeros are a valid value of it.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::stat(c"/proc/self/task".as_ptr(), &mut found) == 0 && found.st_nlink > 3
    }
}

/// Returns whether the processor keeps return addresses on a shadow stack. With a shadow stack, a
/// signal handler must return to the interrupted instruction, else the program ends.
fn has_shadow_stack() -> bool {
    let mut features = 0usize;
    let args = [ARCH_SHSTK_STATUS, (&raw mut features).addr(), 0, 0, 0, 0];
    system(libc::SYS_arch_prctl, args).is_ok() && features & 1 != 0
}

/// Sets this thread's mask. Returns the previous mask.
fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (new, old) = ((&raw const mask).addr(), (&raw mut before).addr());
    let args = [libc::SIG_SETMASK as usize, new, old, BYTES, 0, 0];
    let _set = system(libc::SYS_rt_sigprocmask, args);
    before
}

/// Arms this thread. `hook` then sees every system call of this thread, and of all threads and
/// children that this thread creates.
///
/// # Errors
/// See [`Error`]. If an error is returned, the process is unchanged.
///
/// # Safety
/// The hook obeys the rules of [`Hook`].
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
            selector::dispatch(thread);
        }
        Err(_) => {
            set_mask(mask);
            // SAFETY: the thread was not armed, so the kernel does not use the thread's dispatch
            // block.
            unsafe { thread.free() };
        }
    }
    result
}

fn begin(thread: &Thread, hook: &'static dyn Hook) -> Result<(), Error> {
    let mut stack = NO_STACK;
    let (ours, old) = (thread.stack(), (&raw mut stack).addr());
    system(libc::SYS_sigaltstack, [(&raw const ours).addr(), old, 0, 0, 0, 0])
        .map_err(|failed| Error::Stack { errno: -failed as i32 })?;
    if let Err(failed) = selector::arm(thread) {
        let stack = Stack { flags: stack.flags & !libc::SS_ONSTACK, ..stack };
        let _ = system(libc::SYS_sigaltstack, [(&raw const stack).addr(), 0, 0, 0, 0, 0]);
        return Err(Error::Unsupported { errno: -failed as i32 });
    }
    let filter = system(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0]);
    IS_FILTERED.store(matches!(filter, Ok(1..)), Relaxed);
    thread.altstack.set(if stack.flags & libc::SS_DISABLE == 0 { stack } else { NO_STACK });
    hook::set(hook);
    actions::set_entry(entry());
    ACTIONS.take_over();
    Ok(())
}
