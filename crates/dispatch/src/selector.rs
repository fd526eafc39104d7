//! The selector of a thread, by which the kernel decides whether it dispatches the thread's calls.
//! The selector lies in the thread's block, which lives until the thread has made its last call
//! outside of the range of this crate's instructions.

use crate::system::{Failed, system};
use crate::thread::{ALLOW, DISPATCH, Thread};
use crate::x86_64::frame::Context;
use crate::x86_64::instructions::range;
use std::sync::atomic::Ordering;

const PR_SYS_DISPATCH_ON: usize = 1;
/// The option of `prctl` that starts or stops the dispatch of system calls.
pub const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;

/// Lets the kernel dispatch this thread's calls, depending on the selector.
pub(crate) fn arm(thread: &Thread) -> Result<usize, Failed> {
    let (start, bytes) = range();
    let selector = thread.selector.as_ptr().addr();
    let args = [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, bytes, selector, 0];
    system(libc::SYS_prctl, args)
}

/// Stops the kernel from dispatching this thread's calls. When the thread next returns from a
/// signal, the program's own actions, signal stack and mask are in effect in the kernel.
pub(crate) fn disarm(thread: &Thread) {
    thread.actions().hand_over();
    thread.has_left.set(true);
    let _ended = system(libc::SYS_prctl, [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]);
}

/// Lets the kernel issue calls of this crate's code and of the hook without dispatching them.
/// Returns the previous selector.
pub(crate) fn let_through(thread: &Thread) -> u8 {
    thread.selector.swap(ALLOW, Ordering::Relaxed)
}

pub(crate) fn set(thread: &Thread, selector: u8) {
    thread.selector.store(selector, Ordering::Release);
}

/// Sets a context's signal stack to this crate's. If the thread's calls are no longer
/// dispatched, sets the program's signal stack and mask instead.
pub(crate) fn give_back(thread: &Thread, context: &mut Context) {
    context.stack = thread.stack();
    if thread.has_left.get() {
        (context.stack, context.mask) = (thread.altstack.get(), thread.mask(context));
    }
}

/// Lets the kernel dispatch calls, before a return to the program.
pub(crate) fn dispatch(thread: &Thread) {
    set(thread, DISPATCH);
}
