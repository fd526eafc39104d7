//! The selector of a thread: the byte that determines whether the kernel dispatches the thread's
//! calls. The selector lies in the thread's dispatch block. The block stays mapped until the thread
//! makes calls only from the range of this crate's instructions.

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

/// Stops the kernel from dispatching this thread's calls. After the thread's next return from a
/// signal, the kernel uses the program's own actions, signal stack and mask.
pub(crate) fn disarm(thread: &Thread) {
    thread.actions().hand_over();
    thread.has_left.set(true);
    let _ended = system(libc::SYS_prctl, [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]);
}

/// Sets the selector so that calls of this crate and the hook are not dispatched. Returns the
/// previous selector.
pub(crate) fn let_through(thread: &Thread) -> u8 {
    thread.selector.swap(ALLOW, Ordering::Relaxed)
}

pub(crate) fn set(thread: &Thread, selector: u8) {
    thread.selector.store(selector, Ordering::Release);
}

/// Sets the signal stack in a context to this crate's stack. If the thread's calls are no longer
/// dispatched, sets the program's signal stack and mask instead.
pub(crate) fn give_back(thread: &Thread, context: &mut Context) {
    context.stack = thread.stack();
    if thread.has_left.get() {
        (context.stack, context.mask) = (thread.altstack.get(), thread.mask(context));
    }
}

/// Sets the selector so that calls are dispatched, before a return to the program.
pub(crate) fn dispatch(thread: &Thread) {
    set(thread, DISPATCH);
}
