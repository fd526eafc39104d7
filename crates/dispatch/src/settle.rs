//! Handles signals that arrive in `simple`, the instructions of simple calls.
//!
//! di-11: `simple` changes only rax, rcx, r11, the flags and the stack pointer. When a signal
//! arrives in `simple`, the pins that `simple` holds on managed blocks are removed first. The
//! program's registers are then restored from slots below the red zone of the program's stack. The
//! context is moved to the site, before or after the call. So a handler of the program never sees
//! `simple`.
//!
//! # Safety
//! Only words of managed blocks that `simple` has pinned are changed. Slots are read like other
//! memory of the program.
#![allow(unsafe_code)]

use crate::site;
use crate::user;
use crate::x86_64::frame::Context;
use crate::x86_64::info::Info;
use crate::x86_64::place::{FIRST, FLAGS, LAST, NUMBER, RESULT, RETURN, TAKEN, WORD_BYTES};
use crate::x86_64::place::{Pinned, Place, Result, place, slow_end};
use crate::x86_64::simple::PIN;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel};

const EFAULT: usize = -(libc::EFAULT as isize) as usize;

fn slot(context: &Context, at: usize) -> usize {
    // The thread has just written the slot. If the slot can't be read, the program continues at
    // address 0, and faults.
    user::read(context.stack_pointer().wrapping_add(at)).unwrap_or(0)
}

/// If the call was dispatched at `slow`, the `syscall` for calls that `simple` does not issue,
/// moves the context to the instruction after the site's call.
pub(crate) fn leave_stub(context: &mut Context) {
    if context.instruction() == slow_end() {
        let back = site::behind(slot(context, RETURN));
        context.set_stack_pointer(context.stack_pointer().wrapping_add(TAKEN));
        context.return_to(back);
    }
}

/// If a signal interrupted `simple` or a tail, changes the context in the signal's frame to an
/// address in the program's code. Returns true if the context was in `simple` and was moved to the
/// site, before the call.
pub(crate) fn settle(context: &mut Context, info: &mut Info) -> bool {
    let Some(place) = place(context.instruction(), context.is_zero()) else {
        site::leave_tail(context);
        return false;
    };
    let back = if place.has_return { slot(context, RETURN) } else { context.scratch()[1] };
    let back = site::behind(back);
    release(context, place);
    let register = context.result() as usize;
    let result = match place.result {
        Result::None => None,
        Result::Tried => Some(register).filter(|result| *result != EFAULT),
        Result::Register => Some(register),
        Result::Slot => Some(slot(context, RESULT)),
    };
    if place.has_flags {
        let kept = slot(context, FLAGS);
        context.restore_flags((kept >> 8) as u8, kept & 1 != 0);
    }
    if place.has_number {
        let number = slot(context, NUMBER);
        context.set_result(number as isize);
    }
    context.set_stack_pointer(context.stack_pointer().wrapping_add(place.taken));
    context.return_to(back);
    match result {
        Some(_) if info.is_of_filter() => info.call_address = back,
        Some(result) => context.set_result(result as isize),
        None => context.rewind(context.number()),
    }
    result.is_none()
}

/// Removes the pins that the thread holds.
fn release(context: &Context, place: Place) {
    let (first, last) = (|| slot(context, FIRST), || slot(context, LAST) + WORD_BYTES);
    let [next, after] = context.scratch();
    let words = match place.pinned {
        Pinned::Nothing => return,
        Pinned::All => first()..last(),
        Pinned::Before(bytes) => first()..next + bytes,
        Pinned::From(bytes) => after + bytes..last(),
    };
    for word in words.step_by(WORD_BYTES) {
        // SAFETY: `simple` has pinned this managed block, and so `word` is the address of the
        // block's word.
        unsafe { AtomicU32::from_ptr(word as *mut u32) }.fetch_sub(PIN, AcqRel);
    }
}
