//! Children that request to be traced (PTRACE_TRACEME), as a debugger's child does before the child
//! executes a program.
//!
//! The tracer would see each signal by which the runtime handles calls and faults. If the tracer
//! also waits for its child's `execve`, as after `vfork`, tracer and child would wait for each
//! other forever. Therefore a child that requests to be traced leaves the runtime (pl-23): all of
//! its memory is made resident, and its next program runs without a host.

use crate::program::Program;
use crate::report;
use crate::say::say;
use crate::uses;
use dispatch::{Call, Failed, Outcome, Step, system};
use procgroup::takes_traced;
use std::sync::atomic::Ordering::Relaxed;

/// Returns whether `call` is a request of the calling process to be traced.
fn is_asked(call: &Call) -> bool {
    call.number() as i64 == libc::SYS_ptrace && call.args()[0] as u32 == libc::PTRACE_TRACEME
}

/// Prepares a call by which this process requests to be traced. Returns how the call is handled, or
/// `None` if the process does not leave the runtime.
pub(crate) fn leave_for_tracer(program: &Program, call: &Call) -> Option<Step> {
    if !is_asked(call) || !is_alone(program) {
        return None;
    }
    if let Err(failed) = make_all_plain(program) {
        manage_again(program);
        return Some(Step::Answer(failed));
    }
    if !program.arena.is_lent() {
        dispatch::release_all_code();
    }
    program.give_limits();
    report::begin_exec(program);
    program.arena.rest();
    Some(Step::Leave)
}

/// Completes a call by which this process requested to be traced.
pub(crate) fn after_trace(program: &Program, call: &Call, outcome: Outcome) {
    if !is_asked(call) || !program.is_plain.load(Relaxed) {
        return;
    }
    if outcome != Outcome::Returned(0) {
        manage_again(program);
        report::exec_failed(program);
        program.take_limits_back();
    } else if program.member().is_some_and(|own| takes_traced(own, || program.is_heard())) {
        let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
        say(&format_args!(
            "process {process} is traced by its parent, as a debugger's child: the program \
             that it executes runs without a limit"
        ));
    }
}

/// Returns true if this process has no other thread, or is a child of `vfork`.
pub(crate) fn is_alone(program: &Program) -> bool {
    program.arena.is_lent() || program.threads.load(Relaxed) == 1
}

/// Fills all blocks, and makes all memory plain, so that the kernel alone manages it.
pub(crate) fn make_all_plain(program: &Program) -> Result<(), Failed> {
    program.is_plain.store(true, Relaxed);
    let space = program.space.lock();
    space
        .data(&program.arena)
        .into_iter()
        .try_for_each(|part| uses::make_plain(&space.pieces, &program.arena, &part))
}

/// Undoes [`make_all_plain`], and ends a confinement (pl-28) that a child of `vfork` caused.
pub(crate) fn manage_again(program: &Program) {
    if program.is_child_confined.swap(false, Relaxed) {
        program.end_confinement();
    }
    if program.is_plain.swap(false, Relaxed) {
        let space = program.space.lock();
        for part in space.data(&program.arena) {
            // If this fails for a part, the part stays plain.
            let _plain = uses::settle(&space.pieces, &program.arena, &part);
        }
    }
}
