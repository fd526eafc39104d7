//! The start of a host in a process that has executed the program itself (in-3).
//!
//! # Safety
//! The program's stack is as the kernel has made it, as the program has not begun.
#![allow(unsafe_code)]

use crate::{stack, zeros};
use inject::Entry;
use std::ffi::OsStr;

/// Runs the program. Returns the reason if the runtime can't begin.
pub(crate) fn begin(settings: &OsStr, entry: &Entry) -> String {
    stack::leave_areas();
    entry.wait_for_helper();
    let [space, data, stack] = entry.limits;
    let zeros = zeros::of(entry.stack);
    // SAFETY: one thread runs, and goes on in the program.
    if let Err(message) = unsafe { runtime::begin(settings, None, Some([space, data])) } {
        return message;
    }
    zeros.iter().for_each(zeros::map_again);
    lower_stack(stack);
    // SAFETY: the function touches the list of this C library alone. A panic would read it later,
    // on a stack that is the program's.
    unsafe { libc::clearenv() };
    // SAFETY: the stack is the program's.
    unsafe { stack::enter(entry.stack, &[], entry.instruction) }
}

/// Sets the soft limit of the stack.
fn lower_stack(soft: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the system writes to the structure, and reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) == 0 && limit.rlim_cur != soft {
            limit.rlim_cur = soft;
            libc::setrlimit(libc::RLIMIT_STACK, &raw const limit);
        }
    }
}
