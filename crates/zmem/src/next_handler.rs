//! The program's own handler of SIGSEGV, which sees what is not for a region as if there were no
//! other.
//!
//! # Safety
//! Actions that were ever kept are never freed, as a handler may be looking at one. What is called
//! is what the program gave to `sigaction`, or to [`replace`], for just this.
#![allow(unsafe_code)]

use crate::seats::call_on;
use crate::signals::{self, Action, SignalMask, default_action, set_action};
use std::ffi::c_void;
use std::mem::{transmute, zeroed};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

static NEXT: AtomicPtr<Action> = AtomicPtr::new(null_mut());
/// What follows a handler that wants to be called once.
static DEFAULT: AtomicPtr<Action> = AtomicPtr::new(null_mut());

/// Below the stack that was interrupted a function may have used this much.
const RED_ZONE: usize = 128;

/// Keeps who was asked before there was a handler of ours.
pub(crate) fn keep(action: Action) {
    DEFAULT.store(Box::leak(Box::new(default_action())), Release);
    NEXT.store(Box::leak(Box::new(action)), Release);
}

/// Keeps who is asked from now on; who was.
pub(crate) fn replace(action: Action) -> Action {
    let next = Box::leak(Box::new(action));
    // SAFETY: `keep` has put one there, and none is ever freed.
    unsafe { *NEXT.swap(next, AcqRel) }
}

/// The handler's call.
struct Call {
    function: usize,
    /// Whether it leaves an alternate stack that is still in use.
    leaves_stack: bool,
    mask: SignalMask,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
}

extern "C" fn run(call: *mut Call) {
    // SAFETY: `call` lends it, and no stack is taken that is in use. A handler without SA_SIGINFO
    // looks at the first argument alone.
    unsafe {
        let Call { function, leaves_stack, mask, signal, info, context } = *call;
        if leaves_stack {
            // A signal meanwhile would begin at the alternate stack's end again, over the frames
            // that are there. The kernel sets it as it was when ours returns.
            let mut none: libc::stack_t = zeroed();
            none.ss_flags = libc::SS_DISABLE;
            libc::sigaltstack(&none, null_mut());
        }
        // Not the signal itself: a touch of absent memory must not be blocked.
        signals::restore(&mask.without(signal));
        type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);
        transmute::<usize, Handler>(function)(signal, info, context.cast());
    }
}

/// The end of the stack that was interrupted.
fn stack(context: &libc::ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    let address = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let address = context.uc_mcontext.sp as usize;
    address
}

/// Whether this is on an alternate stack that was not in use before.
fn has_left_stack(context: &libc::ucontext_t) -> bool {
    let start = context.uc_stack.ss_sp.addr();
    let alternate = start..start + context.uc_stack.ss_size;
    let here = 0u8;
    alternate.contains(&(&raw const here).addr()) && !alternate.contains(&stack(context))
}

/// Calls the next handler as the kernel would have.
///
/// # Safety
/// `info` and `context` are the kernel's, of this signal, to a handler that runs with all signals
/// blocked.
pub(crate) unsafe fn call(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: one was kept before the handler was installed, and none is ever freed; the caller
    // vouches for the other two.
    let (next, code, interrupted) = unsafe { (*NEXT.load(Acquire), (*info).si_code, &*context) };
    let is_sent = code <= 0;
    match next.sa_sigaction {
        libc::SIG_IGN if is_sent => {}
        // The kernel ignores no fault.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: what the kernel does by itself. The process ends, as the instruction faults
            // again when this handler returns, or by the signal that is sent once more.
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
                NEXT.store(DEFAULT.load(Acquire), Release);
            }
            let mask = SignalMask::of(next.sa_mask).with(&SignalMask::of(interrupted.uc_sigmask));
            let leaves_stack = next.sa_flags & libc::SA_ONSTACK == 0 && has_left_stack(interrupted);
            let mut call = Call { function, leaves_stack, mask, signal, info, context };
            if leaves_stack {
                let top = (stack(interrupted) - RED_ZONE) as *mut u8;
                // SAFETY: below what was interrupted the stack is nobody's, and was about to get
                // this very handler's frame; `run` takes a `Call`.
                unsafe { call_on(top, run as *const () as usize, (&raw mut call).cast()) };
            } else {
                run(&mut call);
            }
        }
    }
}
