//! The program's handlers of SIGSEGV and SIGBUS, the *next handlers*. If a SIGSEGV or SIGBUS does
//! not concern a region, this crate's handler calls the next handler of this signal.
//!
//! # Safety
//! An action that was stored in `NEXT` is never freed, because a thread may be reading it in a
//! signal handler. The functions that this module calls are handlers that the program passed to
//! `sigaction` or to [`replace`].
#![allow(unsafe_code)]

use crate::contexts::call_on;
use crate::signals::{Action, SignalMask, default_action, interrupted, set_action, set_mask};
use std::ffi::c_void;
use std::mem::{transmute, zeroed};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

static NEXT: [AtomicPtr<Action>; 2] = [const { AtomicPtr::new(null_mut()) }; 2];
/// The default action. It replaces the stored action when a handler with SA_RESETHAND is called.
static DEFAULT: Action = default_action();

/// The number of bytes below the stack pointer that a function is allowed to use (the red zone).
const RED_ZONE: usize = 128;

fn next_of(signal: i32) -> &'static AtomicPtr<Action> {
    &NEXT[usize::from(signal == libc::SIGBUS)]
}

/// Stores the program's action of `signal` in the memory of `next`, for [`call`]. The caller
/// installs this crate's handler after this call.
pub(crate) fn keep(signal: i32, action: Action, mut next: Box<Action>) {
    *next = action;
    next_of(signal).store(Box::leak(next), Release);
}

/// Replaces the stored action of `signal`, and returns the replaced action.
pub(crate) fn replace(signal: i32, action: Action) -> Action {
    let next = Box::leak(Box::new(action));
    // SAFETY: `keep` has stored an action at `next_of(signal)`, and no action is ever freed.
    unsafe { *next_of(signal).swap(next, AcqRel) }
}

struct Call {
    function: usize,
    /// Whether the handler is called on another stack while the alternate stack still holds frames.
    leaves_stack: bool,
    mask: SignalMask,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
}

extern "C" fn run(call: *mut Call) {
    // SAFETY: `call` passes a pointer to a live `Call`, and calls `run` on an unused stack.
    // `function` is a handler of the program. A handler without SA_SIGINFO reads only the first
    // argument.
    unsafe {
        let Call { function, leaves_stack, mask, signal, info, context } = *call;
        if leaves_stack {
            // If the alternate stack stayed enabled, the handler of another signal would start at
            // the end of this stack, and overwrite the frames there. The kernel enables the
            // alternate stack again when this crate's handler returns.
            let mut none: libc::stack_t = zeroed();
            none.ss_flags = libc::SS_DISABLE;
            libc::sigaltstack(&none, null_mut());
        }
        // SIGSEGV and SIGBUS stay unblocked, so that the handler can access absent memory.
        set_mask(mask.without(libc::SIGSEGV).without(libc::SIGBUS));
        type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);
        transmute::<usize, Handler>(function)(signal, info, context.cast());
    }
}

/// Returns whether this handler runs on the alternate stack and the interrupted code ran on another
/// stack.
fn has_left_stack(context: &libc::ucontext_t) -> bool {
    let start = context.uc_stack.ss_sp.addr();
    let alternate = start..start + context.uc_stack.ss_size;
    let here = 0u8;
    alternate.contains(&(&raw const here).addr()) && !alternate.contains(&interrupted(context).1)
}

/// Calls the next handler as the kernel would call it without this crate.
///
/// # Safety
/// The kernel passed `info` and `context` to this crate's handler, which runs with all signals
/// blocked.
pub(crate) unsafe fn call(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: `keep` stored an action before the handler was installed, and no action is ever
    // freed. The caller guarantees that `info` and `context` are valid.
    let (next, code, frame) =
        unsafe { (*next_of(signal).load(Acquire), (*info).si_code, &*context) };
    let is_sent = code <= 0;
    match next.sa_sigaction {
        libc::SIG_IGN if is_sent => {}
        // Even with SIG_IGN, a fault ends the process.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the default action runs no code of the program. When this handler returns,
            // the instruction faults again, or the kernel delivers the signal that is sent again
            // below. Then the default action ends the process.
            unsafe {
                set_action(signal, &default_action());
                if is_sent {
                    let (process, thread) = (libc::getpid(), libc::gettid());
                    libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info);
                }
            }
        }
        function => {
            if next.sa_flags & libc::SA_RESETHAND != 0 {
                next_of(signal).store((&raw const DEFAULT).cast_mut(), Release);
            }
            let mask = SignalMask::of(next.sa_mask).with(SignalMask::of(frame.uc_sigmask));
            let leaves_stack = next.sa_flags & libc::SA_ONSTACK == 0 && has_left_stack(frame);
            let mut call = Call { function, leaves_stack, mask, signal, info, context };
            if leaves_stack {
                let top = (interrupted(frame).1 - RED_ZONE) as *mut u8;
                // SAFETY: the stack below the interrupted frame and its red zone is unused. Without
                // the alternate stack, the kernel would have put this handler's frame there. `run`
                // takes a pointer to a `Call`.
                unsafe { call_on(top, run as *const () as usize, (&raw mut call).cast()) };
            } else {
                run(&mut call);
            }
        }
    }
}
