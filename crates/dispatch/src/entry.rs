//! Handles every signal for which this crate has a handler, and every dispatched call.
//!
//! # Safety
//! The kernel calls the handler on this thread's dispatch block, with a frame that only this thread
//! uses.
#![allow(unsafe_code)]

use crate::call::Call;
use crate::children;
use crate::deliver::{self, call_of, die, interrupt, park, resume, send, unblock_owned};
use crate::hook::{Outcome, Step, hook};
use crate::mask::is_owned;
use crate::pointer;
use crate::repeat::go_on;
use crate::selector::{self, PR_SET_SYSCALL_USER_DISPATCH};
use crate::settle;
use crate::signal_calls::{self, EINVAL};
use crate::site;
use crate::sites;
use crate::stopped;
use crate::thread::{Kind, Thread};
use crate::x86_64::frame::{CALL_BYTES, Context};
use crate::x86_64::info::Info;
use crate::x86_64::instructions::{after_copy, stage};
use crate::x86_64::keys;
use crate::x86_64::simple;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the program has tried to filter its calls. The filter may trap calls of this crate.
pub(crate) static IS_FILTERED: AtomicBool = AtomicBool::new(false);
const ENOSYS: isize = -(libc::ENOSYS as isize);

/// Handles a signal. The thread pointer is already that of this crate's code. Returns whether the
/// thread returns to the program.
// SAFETY: no other crate uses this symbol's name. Only `uzram_dispatch_entry` calls the function.
#[unsafe(no_mangle)]
extern "C" fn uzram_dispatch_on_signal(_: i32, info: *mut Info, context: *mut Context) -> bool {
    // SAFETY: the frame lies on this thread's dispatch block, and no other code accesses it. `Call`
    // accesses the frame through a pointer while no reference to the frame is used.
    unsafe {
        let thread = Thread::of(context.addr());
        let before = selector::let_through(thread);
        keys::enter(&*context);
        if (*info).is_dispatch() {
            settle::leave_stub(&mut *context);
            if (*info).is_of_this_arch() {
                if IS_FILTERED.load(Relaxed) {
                    unblock_owned();
                }
                dispatched(thread, context);
            } else {
                (*context).set_result(ENOSYS);
            }
        } else {
            came(thread, &mut *info, &mut *context);
        }
        finish(thread, &mut *context, before)
    }
}

/// Prepares the return from a signal. Returns whether the thread returns to the program.
fn finish(thread: &Thread, context: &mut Context, before: u8) -> bool {
    if thread.is_on_own_stack(context.stack_pointer()) {
        // The interrupted code may already have set the selector for its return to the program.
        selector::set(thread, before);
        return false;
    }
    while let Some(info) = thread.take_pending() {
        unblock_owned();
        send(thread, context, &info, None);
    }
    selector::give_back(thread, context);
    selector::dispatch(thread);
    true
}

/// Handles a dispatched call.
///
/// # Safety
/// `context` is in the frame of the signal by which the call was dispatched.
unsafe fn dispatched(thread: &Thread, context: *mut Context) {
    // SAFETY: the caller guarantees that the context is valid.
    let context = unsafe { &mut *context };
    if thread.has_ready() {
        // A signal arrived during the last return to the program. After the signal's handler, the
        // program makes the call again.
        return context.rewind(context.number());
    }
    if simple::is_simple(context.number()) && thread.kind.get() == Kind::Thread {
        sites::count(context.instruction());
    }
    let mut call = Call::new(context);
    let mut step = hook().call(&mut call);
    let result = loop {
        match step {
            Step::Answer(result) => break result,
            Step::LeaveBefore => {
                selector::disarm(thread);
                // SAFETY: as in `perform`, only `call` accesses the frame.
                return unsafe { (*call.frame()).rewind(call.asked_number()) };
            }
            Step::Issue | Step::Wait | Step::Leave => match perform(thread, &mut call, step) {
                Some(result) => {
                    if step == Step::Leave && result == 0 {
                        selector::disarm(thread);
                    }
                    step = hook().returned(&mut call, Outcome::Returned(result));
                }
                None => return,
            },
        }
    };
    // SAFETY: `perform` has returned, so only `call` accesses the frame.
    unsafe { (*call.frame()).set_result(result) };
}

/// Returns whether a call may make the kernel filter the program's calls.
fn sets_filter(call: &Call) -> bool {
    call.number() as i64 == libc::SYS_seccomp || call.args()[0] == libc::PR_SET_SECCOMP as usize
}

fn is_brief(call: &Call) -> bool {
    calls::spec(call.number()).is_some_and(|spec| spec.is_brief)
}

/// Makes a call. Returns its result, or `None` if the program continues at another instruction.
fn perform(thread: &Thread, call: &mut Call, step: Step) -> Option<isize> {
    let args = call.args();
    // SAFETY: the frame belongs to the signal that dispatched the call. No other code uses it.
    let context = unsafe { &mut *call.frame() };
    Some(match call.number() as i64 {
        libc::SYS_rt_sigreturn => {
            deliver::return_from(thread, context);
            return None;
        }
        libc::SYS_rt_sigprocmask => signal_calls::sigprocmask(thread, context, args),
        libc::SYS_rt_sigaction => signal_calls::sigaction(thread, args),
        libc::SYS_sigaltstack => signal_calls::sigaltstack(thread, context, args),
        libc::SYS_rt_sigpending => signal_calls::sigpending(thread, args),
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            children::make(thread, call)
        }
        libc::SYS_exit | libc::SYS_exit_group => children::end(thread, call),
        libc::SYS_prctl if args[0] == PR_SET_SYSCALL_USER_DISPATCH => EINVAL,
        libc::SYS_seccomp | libc::SYS_prctl if sets_filter(call) => {
            IS_FILTERED.store(true, Relaxed);
            unblock_owned();
            // SAFETY: the program requested this call, which does not wait.
            unsafe { call.issue_with(None) }
        }
        libc::SYS_arch_prctl if pointer::is_about(args[0]) => pointer::answer(thread, args),
        // SAFETY: the program requested this call, and has set the mask for the new program.
        libc::SYS_execve | libc::SYS_execveat => unsafe {
            call.issue_with(Some(&thread.mask(context)))
        },
        libc::SYS_pkey_alloc => {
            // SAFETY: the program requested this call, which does not wait.
            let result = unsafe { call.issue_with(None) };
            if result >= 0 {
                keys::keep(context, result as u32);
            }
            result
        }
        // SAFETY: the program requested this call, which does not wait.
        _ if step == Step::Leave || is_brief(call) => unsafe { call.issue_with(None) },
        _ => {
            signal_calls::pass_mask(call);
            let mask = context.mask;
            if step == Step::Wait && thread.kind.get() == Kind::Thread {
                park(call);
            }
            // SAFETY: the program requested this call. No function on this stack has cleanup left
            // to do.
            let result = unsafe { call.issue_with(Some(&mask)) };
            resume(call);
            let is_trace = call.number() as i64 == libc::SYS_ptrace;
            if is_trace && result == 0 && thread.kind.get() == Kind::Sharing {
                stopped::settle(args);
            }
            result
        }
    })
}

/// Handles a signal for the program, or a fault that the hook may resolve.
fn came(thread: &Thread, info: &mut Info, context: &mut Context) {
    let is_touch = info.is_fault();
    let frame = (&raw mut *context).cast();
    if is_touch && hook().fault(info.signal, (&raw const *info).cast(), frame) {
        return;
    }
    let is_on_own_stack = thread.is_on_own_stack(context.stack_pointer());
    if !is_on_own_stack {
        unblock_owned();
    }
    // If this crate's code was interrupted in `simple`, its C library call continues there.
    let is_settled =
        !is_on_own_stack && (settle::settle(context, info) || site::leave(context, info));
    // Either `simple` can't write below the program's stack pointer, or the program passed an
    // invalid address, or the program single-steps. The call is dispatched; otherwise the program
    // would return to the site forever.
    let is_step = info.signal == libc::SIGTRAP && info.code == libc::TRAP_TRACE;
    if is_settled && (is_touch || is_step) {
        context.return_to(context.instruction() + CALL_BYTES);
        // SAFETY: the context is now that of a dispatched call, and only this thread accesses it.
        return unsafe { dispatched(thread, context) };
    }
    let mut base = None;
    if is_owned(info.signal) && info.code <= 0 {
        // SAFETY: the register holds the call's address in all stages. No other code uses the call.
        let call = stage(context.instruction()).map(|_| unsafe { &mut *call_of(context) });
        let mut call = call.filter(|call| call.is_open());
        let may_act = !is_on_own_stack || call.is_some();
        let was_parked = call.as_mut().is_some_and(|call| resume(call));
        if hook().sent((&raw const *info).cast(), may_act) {
            if let Some(call) = call {
                go_on(thread, context, call, was_parked);
            }
            return;
        }
    }
    if is_on_own_stack {
        if is_touch {
            match after_copy(context.instruction()) {
                Some(next) => context.set_instruction(next),
                None => thread.actions().end_by(info.signal),
            }
            return;
        }
        let is_trap = info.is_of_filter();
        let stage = stage(context.instruction());
        // SAFETY: the register holds the call's address in all stages.
        let open = stage.filter(|_| is_trap || unsafe { (*call_of(context)).is_open() });
        match open {
            Some(stage) => {
                unblock_owned();
                // SAFETY: the context was interrupted at stage `stage` of issuing a call.
                base = unsafe { interrupt(context, stage, info) };
            }
            // A filter refused a call of the hook. The hook can't handle this refusal.
            None if is_trap => return die(thread, info),
            None if is_owned(info.signal) => return thread.defer(info),
            None => return,
        }
    }
    send(thread, context, info, base);
}
