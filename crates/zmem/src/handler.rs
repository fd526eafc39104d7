//! The handler of SIGSEGV and SIGBUS. The handler passes faults on absent memory to the pager, and
//! other signals to the next handler.
//!
//! # Safety
//! The kernel's signal frame belongs to this thread until the handler returns. The handler uses no
//! heap, and takes no lock that the interrupted code can hold (zm-H1 to zm-H4).
#![allow(unsafe_code)]

use crate::backend::ForkResult;
use crate::contexts::Purpose;
use crate::fault::{self, Verdict};
use crate::gate::{GATE, inside};
use crate::next_handler;
use crate::policy::UNMANAGED_FAULTS_MAX;
use crate::recent::Toucher;
use crate::signals::{self, SignalMask, action_of, default_action, interrupted, set_action};
use crate::{forks, registry};
use page::fork::Mutex;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::Ordering::SeqCst;

thread_local! {
    /// This thread's last fault on a resident or unmanaged block, and how often in succession this
    /// fault occurred. A fault is identified by its address, the address of its instruction, and
    /// `closings` of `Verdict::Unchanged`.
    static LAST: Cell<((usize, usize, u32), u32)> = const { Cell::new(((0, 0, 0), 0)) };
}

/// Whether the handlers of SIGSEGV and SIGBUS are installed. A thread locks this value only inside
/// the gate, so a child never inherits it locked.
static ARE_INSTALLED: Mutex<[bool; 2]> = Mutex::new([false; 2]);

/// Installs the handler of `signal`, SIGSEGV or SIGBUS, if it is not installed yet. The previous
/// handler becomes the next handler.
pub(crate) fn install(signal: i32) {
    forks::register();
    // The box is allocated and freed outside of the gate (zm-H3).
    let mut next = Some(Box::new(default_action()));
    inside(|| {
        let mut are_installed = ARE_INSTALLED.lock();
        let is_installed = &mut are_installed[usize::from(signal == libc::SIGBUS)];
        if *is_installed {
            return;
        }
        if let Some(next) = next.take() {
            next_handler::keep(signal, action_of(signal), next);
        }
        let mut ours = default_action();
        ours.sa_sigaction = entry as extern "C" fn(_, _, _) as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        ours.sa_mask = SignalMask::ALL.set();
        // SAFETY: `entry` can safely be called at any instruction: see the module documentation.
        unsafe { set_action(signal, &ours) };
        *is_installed = true;
    });
}

/// Sets the next handler, which gets each SIGSEGV that does not concern a region. Returns the
/// replaced handler. After the first region was created, a program calls this function instead of
/// `sigaction`.
///
/// # Safety
/// As with `sigaction`, the kernel calls the handler on any thread, at any instruction.
pub unsafe fn set_next_handler(action: &libc::sigaction) -> libc::sigaction {
    install(libc::SIGSEGV);
    next_handler::replace(libc::SIGSEGV, *action)
}

/// Sets the next handler of SIGBUS, as [`set_next_handler`] does for SIGSEGV. Some regions with a
/// userfaultfd use SIGBUS.
///
/// # Safety
/// As with `sigaction`, the kernel calls the handler on any thread, at any instruction.
pub unsafe fn set_next_bus_handler(action: &libc::sigaction) -> libc::sigaction {
    install(libc::SIGBUS);
    next_handler::replace(libc::SIGBUS, *action)
}

/// The signal handler. The handler preserves `errno`, because the interrupted code may be about to
/// read it.
extern "C" fn entry(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes pointers to values that belong to this thread until the handler
    // returns, and calls `entry` with all signals blocked, as `next_handler::call` requires.
    keep_errno(|| unsafe {
        if !answer(signal, &*info, &*context.cast(), Stack::HandlerContext) {
            next_handler::call(signal, info, context.cast());
        }
    });
}

fn keep_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library returns a valid pointer to the `errno` of this thread.
    unsafe {
        let errno = *libc::__errno_location();
        let done = work();
        *libc::__errno_location() = errno;
        done
    }
}

/// Handles a fault on behalf of a program's own handler of SIGSEGV, which a program with arenas
/// needs. If the fault is on absent memory of an arena, makes that memory resident. Returns whether
/// the handler must return, so that the instruction is repeated.
///
/// # Safety
/// The kernel has passed `info` and `context` to a handler of `signal` on this thread. During the
/// handler, all signals whose handlers access managed memory are blocked. The handler's stack has
/// 128 KiB. A handler that interrupts this handler does not overwrite the frames on this stack.
pub unsafe fn answer_fault(
    signal: i32,
    info: *const libc::siginfo_t,
    context: *const libc::ucontext_t,
) -> bool {
    // SAFETY: the caller guarantees that both pointers are valid.
    keep_errno(|| unsafe { answer(signal, &*info, &*context, Stack::This) })
}

/// The stack on which this crate handles a fault.
enum Stack {
    /// The stack on which the handler was called. The caller guarantees that this stack has enough
    /// space.
    This,
    /// A context's stack, because the stack on which the handler was called may be small.
    HandlerContext,
}

/// Handles a fault if its address is in a region. Returns whether the faulting instruction must be
/// repeated.
fn answer(signal: i32, info: &libc::siginfo_t, context: &libc::ucontext_t, stack: Stack) -> bool {
    // The signal reports no page fault: a process has sent it, or it reports damaged memory.
    if info.si_code <= 0 || (signal == libc::SIGBUS && info.si_code != libc::BUS_ADRERR) {
        return false;
    }
    // SAFETY: the kernel has raised the SIGSEGV or SIGBUS, as just checked, so `info` contains an
    // address.
    let address = unsafe { info.si_addr() } as usize;
    let verdict = registry::with_pager(address, |pager| {
        if pager.backend.fork_result() == ForkResult::Nothing {
            return None;
        }
        signals::set_in_handler(true);
        let inside = GATE.enter();
        let mut verdict = Verdict::Answered;
        let mut context = pager.contexts.take(Purpose::Fault);
        let mut fault =
            |buf: &mut [u8]| verdict = fault::handle(pager, address, Toucher::This, buf);
        // The context is released before this thread leaves the gate. Otherwise, a fork between
        // these steps would copy the context as taken.
        match stack {
            Stack::This => {
                fault(context.buffer());
                drop(context);
            }
            Stack::HandlerContext => context.with_stack(fault),
        }
        drop(inside);
        signals::set_in_handler(false);
        Some(verdict)
    });
    let (closings, most) = match verdict {
        Some(None) => return false,
        Some(Some(Verdict::Answered)) => return true,
        Some(Some(Verdict::Unchanged { closings, most })) => (closings, most),
        // A region that contained the address may have ended after the access.
        None => match registry::ENDED.load(SeqCst) {
            0 => return false,
            ended => (ended, UNMANAGED_FAULTS_MAX),
        },
    };
    let this = (address, interrupted(context).0, closings);
    let (last, before) = LAST.get();
    let count = if last == this { before + 1 } else { 1 };
    LAST.set((this, count));
    count <= most
}
