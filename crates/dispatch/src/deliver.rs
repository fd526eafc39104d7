//! Delivers signals to the program. Like the kernel, this module writes signal frames to the
//! program's stacks, and returns from these frames.
//!
//! A handler of the program never runs on a stack of this crate. The frame that the handler sees
//! contains the state of the program's code, not of this crate's (di-2). An interrupted call is
//! completed or undone before the handler begins.
//!
//! # Safety
//! Frames and contexts belong to signals of this thread, and lie on the thread's dispatch block.
#![allow(unsafe_code)]

use crate::call::Call;
use crate::hook::{Outcome, Step, hook};
use crate::mask::{BLOCK, BYTES, bit, is_owned};
use crate::system::system;
use crate::thread::Thread;
use crate::user;
use crate::x86_64::frame::{self, AUTODISARM, Context, FP_SIZE_AT, Frame, NO_STACK, RED_ZONE};
use crate::x86_64::info::Info;
use crate::x86_64::instructions::Stage;
use std::mem::{offset_of, take};

/// Sets this thread's mask.
///
/// # Safety
/// If the mask blocks owned signals, the thread must not access memory of the program.
pub(crate) unsafe fn set_mask(mask: &u64) {
    let args = [libc::SIG_SETMASK as usize, (&raw const *mask).addr(), 0, BYTES, 0, 0];
    let _set = system(libc::SYS_rt_sigprocmask, args);
}

/// Unblocks the signal that the kernel blocked when it called the handler. Afterwards, code can
/// access memory of the program, or issue a call that a filter traps (di-16).
pub(crate) fn unblock_owned() {
    // SAFETY: the mask blocks no owned signals.
    unsafe { set_mask(&BLOCK) };
}

/// Ends the process by an owned signal, as if the program had no handler for the signal.
pub(crate) fn die(thread: &Thread, info: &Info) {
    thread.actions().end_by(info.signal);
    let own = |number| system(number, [0; 6]).unwrap_or(0);
    let (process, this) = (own(libc::SYS_getpid), own(libc::SYS_gettid));
    let args = [process, this, info.signal as usize, (&raw const *info).addr(), 0, 0];
    let _sent = system(libc::SYS_rt_tgsigqueueinfo, args);
}

/// Ends the process by SIGSEGV, because the program's stack can't be read or written.
fn die_of_stack(thread: &Thread) {
    die(thread, &Info::of_system(libc::SIGSEGV));
}

/// Delivers a signal to the program. `context` then continues in the program's handler. The handler
/// runs with the mask of its action added to `base`, or to the program's mask if `base` is `None`.
pub(crate) fn send(thread: &Thread, context: &mut Context, info: &Info, base: Option<u64>) {
    let mask = base.unwrap_or(thread.mask(context));
    let is_sent = info.code <= 0;
    if is_owned(info.signal) && mask & bit(info.signal) != 0 && is_sent {
        return thread.defer(info);
    }
    let action = thread.actions().take(info.signal);
    let is_blocked = is_owned(info.signal) && mask & bit(info.signal) != 0;
    if !action.is_handler() || is_blocked {
        // A process has sent this signal, and the program ignores it. A fault can't be ignored.
        if action.handler == libc::SIG_IGN && is_sent {
            return;
        }
        if info.is_fault() {
            return thread.actions().end_by(info.signal);
        }
        return die(thread, info);
    }
    let pointer = context.stack_pointer();
    let stack = thread.altstack.get();
    let goes = action.has(libc::SA_ONSTACK) && stack.is_on() && !stack.holds(pointer);
    let top = if goes { stack.end() } else { pointer.wrapping_sub(RED_ZONE) };
    let is_on = goes || stack.is_on() && stack.holds(pointer);
    let mut shown = Frame { restorer: action.restorer, context: *context, info: *info };
    (shown.context.stack, shown.context.mask, shown.context.link) =
        (stack, thread.mask(context), 0);
    let written = write_frame(top, shown).ok();
    let Some(at) = written.filter(|at| !is_on || *at >= stack.start) else {
        return die_of_stack(thread);
    };
    let own = if action.has(libc::SA_NODEFER) { 0 } else { bit(info.signal) };
    context.enter(action.handler, info.signal, at);
    thread.set_mask(context, mask | action.mask | own);
    if stack.flags & AUTODISARM != 0 {
        thread.altstack.set(NO_STACK);
    }
}

/// Returns the size of an fpstate in bytes.
fn fp_bytes(fpstate: usize) -> Result<usize, isize> {
    match fpstate {
        0 => Ok(0),
        _ => user::read(fpstate.wrapping_add(FP_SIZE_AT)).map(frame::fp_bytes),
    }
}

/// Writes a frame below `top`, with a copy of its fpstate. Returns the frame's address.
fn write_frame(top: usize, mut frame: Frame) -> Result<usize, isize> {
    let from = frame.context.registers.fpstate;
    let bytes = fp_bytes(from)?;
    let (at, fp) = frame::places(top, bytes);
    if from != 0 {
        user::copy_out(fp, from, bytes)?;
        frame.context.registers.fpstate = fp;
    }
    user::write(at, &frame)?;
    Ok(at)
}

/// Copies a frame to the dispatch block of a child. Returns the address of the copy.
pub(crate) fn copy_to(child: &Thread, context: &Context) -> Result<usize, isize> {
    let mut copied = Frame { restorer: 0, context: *context, info: Info::NONE };
    copied.context.stack = child.stack();
    write_frame(child.stack().end(), copied)
}

/// Handles `rt_sigreturn`: the program continues with the registers in its frame.
pub(crate) fn return_from(thread: &Thread, context: &mut Context) {
    if take_back(thread, context).is_err() {
        die_of_stack(thread);
    }
}

fn take_back(thread: &Thread, context: &mut Context) -> Result<(), isize> {
    let at = context.returned_frame();
    let given: Frame = user::read(at)?;
    let (own, from) = (context.registers.fpstate, given.context.registers.fpstate);
    (context.flags, context.registers) = (given.context.flags, given.context.registers);
    // The program's fpstate is copied to the frame on this crate's stack if the lengths of both
    // fpstates are equal. Otherwise the kernel reads the fpstate from the program's memory.
    let bytes = fp_bytes(from)?;
    if from != 0 && own != 0 && fp_bytes(own)? == bytes {
        // SAFETY: `own` belongs to the frame on this thread's dispatch block, and has `bytes`
        // bytes.
        unsafe { user::copy_in(own, from, bytes)? };
        context.registers.fpstate = own;
    }
    thread.set_mask(context, given.context.mask);
    let stack = given.context.stack;
    let is_on = stack.flags & libc::SS_DISABLE == 0 && stack.bytes >= libc::MINSIGSTKSZ;
    thread.altstack.set(if is_on { stack } else { NO_STACK });
    Ok(())
}

/// Returns the call that the interrupted thread was issuing. The thread must have been interrupted
/// in the instructions that issue a call.
pub(crate) fn call_of(context: &Context) -> *mut Call {
    context.issue() as *mut Call
}

/// Notifies the hook that the thread is about to wait. All memory that the call accesses is pinned.
pub(crate) fn park(call: &mut Call) {
    hook().parks();
    call.is_parked = true;
}

/// Notifies the hook that the thread continues, if [`park`] has notified the hook of the wait.
/// Returns whether the hook was notified of the wait.
pub(crate) fn resume(call: &mut Call) -> bool {
    let was_parked = take(&mut call.is_parked);
    if was_parked {
        hook().resumes();
    }
    was_parked
}

/// Completes or undoes the call that a signal interrupted. `context` then contains the program's
/// registers. Returns the call's temporary mask if the call has one and returned EINTR.
///
/// # Safety
/// The signal interrupted the thread of `context` in the instructions that issue a call.
pub(crate) unsafe fn interrupt(
    context: &mut Context,
    stage: Stage,
    info: &mut Info,
) -> Option<u64> {
    // SAFETY: the register holds the call's address at each of these instructions, and the frame of
    // the dispatching signal lies above the call. The interrupted code accesses neither the call
    // nor the frame again.
    let (call, outer) = unsafe {
        let call = call_of(context);
        (&mut *call, &mut *(*call).frame())
    };
    resume(call);
    let mut base = None;
    if info.is_of_filter() {
        // The program's filter trapped the call, so the program's handler sets the call's result.
        hook().returned(call, Outcome::GivenUp);
        outer.set_result(call.number() as isize);
        info.call_address = outer.instruction();
    } else if stage == Stage::Before {
        hook().returned(call, Outcome::GivenUp);
        outer.rewind(call.asked_number());
    } else {
        let kept = call.kept_result();
        let result = if stage == Stage::Answered { context.result() } else { kept };
        base = call.temporary.filter(|_| result == -(libc::EINTR as isize));
        match hook().returned(call, Outcome::Returned(result)) {
            Step::Answer(result) => outer.set_result(result),
            Step::Issue | Step::Wait | Step::Leave | Step::LeaveBefore => {
                hook().returned(call, Outcome::GivenUp);
                outer.rewind(call.asked_number());
            }
        }
    }
    *context = *outer;
    base
}

const _: () = assert!(offset_of!(Frame, context) == size_of::<usize>());
