//! The signal handler. Touches of absent memory go to the pager, all other signals to the handler
//! that was there before.
//!
//! # Safety
//! The kernel calls the handler with a frame that is this thread's until it returns. The handler
//! uses no heap, and takes no lock that the interrupted code can hold (zm-H1 to zm-H4).
#![allow(unsafe_code)]

use crate::backend::Heir;
use crate::forks;
use crate::gate::GATE;
use crate::in_handler;
use crate::next_handler::{self, Actions};
use crate::order::Toucher;
use crate::pager::Verdict;
use crate::registry;
use crate::seats::{Seat, Taker};
use crate::signals::{SignalMask, action_of, default_action, set_action, without_signals};
use page::fork::Mutex;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::Ordering::SeqCst;

/// How often in a row an instruction may fault on a resident block, with no block closed in
/// between, before the program must have protected the memory itself.
const RESIDENT_FAULTS_MAX: u32 = 16;
/// The same on a block that is not managed: it may have been when it was touched.
const UNMANAGED_FAULTS_MAX: u32 = 1;

thread_local! {
    /// The last fault of this thread on a resident block, and how often in a row it came.
    static LAST: Cell<(Spurious, u32)> = const { Cell::new((Spurious::NONE, 0)) };
}

/// A fault on a resident block, as it is recognised when it comes again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Spurious {
    address: usize,
    instruction: usize,
    /// How often the pager had closed blocks near it.
    closings: u32,
}

impl Spurious {
    const NONE: Self = Spurious { address: 0, instruction: 0, closings: 0 };
}

/// Whether the handlers of SIGSEGV and SIGBUS are installed. Locked within the gate alone, so that
/// no fork copies it locked.
static ARE_INSTALLED: Mutex<[bool; 2]> = Mutex::new([false; 2]);

/// Installs the handler of SIGSEGV, once for the process.
pub(crate) fn install() {
    install_for(libc::SIGSEGV);
}

/// Installs the handler of SIGBUS, once for the process.
pub(crate) fn install_for_bus() {
    install_for(libc::SIGBUS);
}

/// Installs the handler for a signal if it is not installed, and keeps the action before as the
/// next one.
fn install_for(signal: i32) {
    forks::register();
    // Allocated and freed outside of the gate (zm-H3).
    let mut actions = Some(Actions::new());
    without_signals(|| {
        let _inside = GATE.enter();
        let mut are_installed = ARE_INSTALLED.lock();
        let is_installed = &mut are_installed[usize::from(signal == libc::SIGBUS)];
        if *is_installed {
            return;
        }
        if let Some(actions) = actions.take() {
            next_handler::keep(signal, action_of(signal), actions);
        }
        let mut ours = default_action();
        ours.sa_sigaction = entry as extern "C" fn(_, _, _) as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        ours.sa_mask = SignalMask::all().set();
        // SAFETY: `entry` may be called anywhere: see the head of this file.
        unsafe { set_action(signal, &ours) };
        *is_installed = true;
    });
}

/// Sets the handler for each SIGSEGV that is not for a region, and returns the one before. A
/// program that installs a handler after it has made its first region calls this in place of
/// `sigaction`.
///
/// # Safety
/// As with `sigaction`, the handler may be called on any thread, at any instruction.
pub unsafe fn set_next_handler(action: &libc::sigaction) -> libc::sigaction {
    install();
    next_handler::replace(libc::SIGSEGV, *action)
}

/// Does the same for SIGBUS, which regions with a userfaultfd use.
///
/// # Safety
/// As with `sigaction`, the handler may be called on any thread, at any instruction.
pub unsafe fn set_next_bus_handler(action: &libc::sigaction) -> libc::sigaction {
    install_for_bus();
    next_handler::replace(libc::SIGBUS, *action)
}

/// The handler. It keeps `errno`, which the interrupted code may be about to read.
extern "C" fn entry(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both pointers, to values that are this thread's until the handler
    // returns, and calls it with all signals blocked, as `next_handler::call` asks for.
    unsafe {
        let errno = *libc::__errno_location();
        if !answer(signal, &*info, &*context.cast(), Stack::Seat) {
            next_handler::call(signal, info, context.cast());
        }
        *libc::__errno_location() = errno;
    }
}

/// Answers a fault, for a program whose handler of SIGSEGV is not this crate's: if the touch was of
/// an arena's managed memory that is absent, that is there then. Returns whether the instruction is
/// to be tried again.
///
/// # Safety
/// The kernel has passed `info` and `context` to a handler of `signal` on this thread, which runs
/// with all signals blocked that have handlers which touch managed memory, and whose stack has
/// 128 KiB of room: what else interrupts it finds that stack in use.
pub unsafe fn answer_fault(
    signal: i32,
    info: *const libc::siginfo_t,
    context: *const libc::ucontext_t,
) -> bool {
    // SAFETY: the caller vouches for both; `errno` is this thread's.
    unsafe {
        let errno = *libc::__errno_location();
        let is_answered = answer(signal, &*info, &*context, Stack::This);
        *libc::__errno_location() = errno;
        is_answered
    }
}

/// Returns the address of the instruction that was interrupted.
fn instruction(context: &libc::ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    let address = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let address = context.uc_mcontext.pc as usize;
    address
}

/// The stack on which a fault is answered.
enum Stack {
    /// The handler's, which is known to have room.
    This,
    /// A seat's: the handler's is the program's, and may be small.
    Seat,
}

/// Answers a fault if it is a region's. Returns whether the instruction is to be tried again.
fn answer(signal: i32, info: &libc::siginfo_t, context: &libc::ucontext_t, stack: Stack) -> bool {
    // A process has sent the signal, or it reports broken memory.
    if info.si_code <= 0 || (signal == libc::SIGBUS && info.si_code != libc::BUS_ADRERR) {
        return false;
    }
    // SAFETY: a SIGSEGV or SIGBUS that the kernel raises has an address.
    let address = unsafe { info.si_addr() } as usize;
    let verdict = registry::with_pager(address, |pager| {
        if pager.heir() == Heir::Nothing {
            return None;
        }
        in_handler::set(true);
        let inside = GATE.enter();
        let mut verdict = Verdict::Resident { closings: 0 };
        let mut seat = pager.seats.take(Taker::Fault);
        let mut fault = |seat: &mut Seat<'_>| verdict = pager.fault(address, Toucher::This, seat);
        match stack {
            Stack::This => fault(&mut seat),
            Stack::Seat => seat.with_stack(fault),
        }
        drop(inside);
        in_handler::set(false);
        Some(verdict)
    });
    let (closings, most) = match verdict {
        Some(None) => return false,
        Some(Some(Verdict::Answered)) => return true,
        Some(Some(Verdict::Resident { closings })) => (closings, RESIDENT_FAULTS_MAX),
        Some(Some(Verdict::Unmanaged { closings })) => (closings, UNMANAGED_FAULTS_MAX),
        // The region that it was of may have ended since.
        None => match registry::ENDED.load(SeqCst) {
            0 => return false,
            ended => (ended, UNMANAGED_FAULTS_MAX),
        },
    };
    let this = Spurious { address, instruction: instruction(context), closings };
    let (last, before) = LAST.get();
    let count = if last == this { before + 1 } else { 1 };
    LAST.set((this, count));
    count <= most
}
