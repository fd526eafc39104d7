//! Starts an injected host in a process that has executed the program instead of the host (in-3).
//!
//! # Safety
//! The program's stack is as the kernel set it up, because the program has not started to run.
#![allow(unsafe_code)]

use crate::stack::Release;
use crate::{areas, stack, zeros};
use inject::Entry;
use std::ffi::OsStr;
use std::ptr;

/// Starts the runtime and enters the program. Returns an error message if the runtime can't start.
pub(crate) fn begin(settings: &OsStr, entry: &Entry) -> String {
    // Makes the lowest page inaccessible, so that a stack overflow ends the process.
    // SAFETY: the page is the lowest one of this stack, and the host uses less than the stack's
    // size.
    unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(entry.host_stack), stack::PAGE, 0) };
    areas::unregister();
    entry.wait_for_helper();
    let zeros = zeros::of(entry.stack);
    // SAFETY: the process has only one thread, which later runs the program.
    if let Err(message) = unsafe { runtime::begin(settings, None, entry.limits) } {
        return message;
    }
    zeros.iter().flatten().for_each(zeros::map_again);
    // SAFETY: the function changes only the environment list of this C library. If the function did
    // not clear the list, a later panic would read the list from a stack that is already unmapped.
    unsafe { libc::clearenv() };
    let own = Release::Mapping(entry.host_stack..entry.host_stack + Entry::STACK_BYTES);
    // SAFETY: `entry.stack` is the program's stack, and `own` is the mapping of the host's stack,
    // on which this function runs.
    unsafe { stack::enter(entry.stack, &[], entry.instruction, &own) }
}
