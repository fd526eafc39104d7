//! The start of a host in a process that has executed the program itself (in-3).
//!
//! # Safety
//! The program's stack is as the kernel has made it, because the program has not begun.
#![allow(unsafe_code)]

use crate::stack::Release;
use crate::{areas, stack, zeros};
use inject::Entry;
use std::ffi::OsStr;
use std::ptr;

/// Runs the program. Returns an error message if the runtime can't begin.
pub(crate) fn begin(settings: &OsStr, entry: &Entry) -> String {
    // Makes the lowest page inaccessible, so that a stack overflow ends the process.
    // SAFETY: the page is the lowest one of this stack, which is larger than its use.
    unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(entry.host_stack), stack::PAGE, 0) };
    areas::unregister();
    entry.wait_for_helper();
    let zeros = zeros::of(entry.stack);
    // SAFETY: one thread runs, and it continues in the program.
    if let Err(message) = unsafe { runtime::begin(settings, None, entry.limits) } {
        return message;
    }
    zeros.iter().for_each(zeros::map_again);
    // SAFETY: the function changes only the list of this C library. Otherwise a panic would read
    // that list later, on a stack that is unmapped.
    unsafe { libc::clearenv() };
    let own = Release::Mapping(entry.host_stack..entry.host_stack + Entry::STACK_BYTES);
    // SAFETY: `entry.stack` is the program's stack, and `own` is the mapping of this stack.
    unsafe { stack::enter(entry.stack, &[], entry.instruction, &own) }
}
