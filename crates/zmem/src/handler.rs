//! The signal handler: what is a touch of absent memory goes to the pager, and all else to who was
//! asked before.
//!
//! # Safety
//! The handler is called by the kernel, with a frame that is this thread's until it returns. What
//! it does itself needs no lock and no heap: see the rules in `docs/design.md`.
#![allow(unsafe_code)]

use crate::gate::GATE;
use crate::in_handler;
use crate::next_handler;
use crate::pager::Verdict;
use crate::registry;
use crate::signals::{SignalMask, action_of, default_action, set_action};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Once;

/// How often in a row a block may fault at one place though it is resident, and nothing was marked
/// meanwhile, before that is the program's own doing.
const RESIDENT_FAULTS_MAX: u32 = 16;

thread_local! {
    /// A fault that found its block resident, and how often it did.
    static LAST: Cell<(Spurious, u32)> = const { Cell::new((Spurious::NONE, 0)) };
}

/// What a fault is recognized by that comes again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Spurious {
    address: usize,
    instruction: usize,
    /// How often the pager has closed blocks.
    closings: u32,
}

impl Spurious {
    const NONE: Self = Spurious { address: 0, instruction: 0, closings: 0 };
}

/// Installs the handler, once for the process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        next_handler::keep(action_of(libc::SIGSEGV));
        let mut ours = default_action();
        ours.sa_sigaction = entry as extern "C" fn(_, _, _) as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        ours.sa_mask = SignalMask::all().set();
        // SAFETY: `entry` may be called anywhere: see the head of this file.
        unsafe { set_action(libc::SIGSEGV, &ours) };
    });
}

/// Has each SIGSEGV that is not for a region go to `action`; whom they went to before. A program
/// that installs a handler after its first region was made does it with this, in place of
/// `sigaction`.
///
/// # Safety
/// As of `sigaction`: the handler may be called on any thread, at any instruction.
pub unsafe fn set_next_handler(action: &libc::sigaction) -> libc::sigaction {
    install();
    next_handler::replace(*action)
}

extern "C" fn entry(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: both are this thread's, of this call; see `answer` and `pass_on`.
    unsafe {
        let errno = *libc::__errno_location();
        if !answer(&*info, &*context.cast()) {
            next_handler::call(signal, info, context.cast());
        }
        *libc::__errno_location() = errno;
    }
}

/// The instruction that was interrupted.
fn instruction(context: &libc::ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    let address = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let address = context.uc_mcontext.pc as usize;
    address
}

/// Whether the fault was a region's, and has been answered.
fn answer(info: &libc::siginfo_t, context: &libc::ucontext_t) -> bool {
    // Sent by a process, not by a touch.
    if info.si_code <= 0 {
        return false;
    }
    // SAFETY: a SIGSEGV of the kernel's has an address.
    let address = unsafe { info.si_addr() } as usize;
    let verdict = registry::with_pager(address, |pager| {
        in_handler::set(true);
        let inside = GATE.enter();
        let mut verdict = Verdict::Resident { closings: 0 };
        pager.seats.take().with_stack(|seat| verdict = pager.fault(address, seat));
        drop(inside);
        in_handler::set(false);
        verdict
    });
    match verdict {
        None => false,
        Some(Verdict::Answered) => true,
        Some(Verdict::Resident { closings }) => {
            let this = Spurious { address, instruction: instruction(context), closings };
            let (last, before) = LAST.get();
            let count = if last == this { before + 1 } else { 1 };
            LAST.set((this, count));
            count <= RESIDENT_FAULTS_MAX
        }
    }
}
