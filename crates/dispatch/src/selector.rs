//! Which calls of a thread the kernel dispatches: the thread's selector says so (SUD).
//!
//! # Safety
//! The selector lies in the thread's block, which lives as long as the thread makes calls.
#![allow(unsafe_code)]

use crate::thread::{ALLOW, DISPATCH, Thread};
use crate::x86_64::frame::Context;
use crate::x86_64::instructions::{range, raw_syscall};
use std::sync::atomic::Ordering;

const PR_SYS_DISPATCH_ON: usize = 1;
pub(crate) const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;

impl Thread {
    /// Makes the kernel dispatch this thread's calls, as the selector says.
    pub(crate) fn arm(&self) -> isize {
        let (start, bytes) = range();
        let selector = self.selector.as_ptr().addr();
        let args = [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, bytes, selector, 0];
        // SAFETY: the selector lives as long as the thread makes calls from outside of the range.
        unsafe { raw_syscall(libc::SYS_prctl as usize, args) }
    }

    /// Stops the kernel from dispatching this thread's calls. The program has its own actions,
    /// signal stack and mask from the next return on.
    pub(crate) fn disarm(&self) {
        self.actions().hand_over();
        self.has_left.set(true);
        // SAFETY: the call names no memory.
        unsafe {
            raw_syscall(libc::SYS_prctl as usize, [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0])
        };
    }

    /// Lets calls of this crate's code, and of the hook, through. Returns the selector as it was.
    pub(crate) fn let_through(&self) -> u8 {
        self.selector.swap(ALLOW, Ordering::Relaxed)
    }

    pub(crate) fn set_selector(&self, selector: u8) {
        self.selector.store(selector, Ordering::Release);
    }

    /// Gives a context the stack for signals that the program, or code of ours, has.
    pub(crate) fn give_back(&self, context: &mut Context) {
        context.stack = self.stack();
        if self.has_left.get() {
            (context.stack, context.mask) = (self.altstack.get(), self.mask(context));
        }
    }

    /// Makes calls be dispatched: a return to the program follows.
    pub(crate) fn dispatch(&self) {
        self.set_selector(DISPATCH);
    }
}
