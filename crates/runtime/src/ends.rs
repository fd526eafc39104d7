//! Ends the compressor thread before some system calls (pl-13). Writes reports and pins the robust
//! list before calls that end a thread or a process, or execute a program.

use crate::debugged;
use crate::filtered;
use crate::over_limit;
use crate::program::Program;
use crate::report;
use crate::robust;
use dispatch::Call;
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// Ends the compressor thread before a call that requires the thread's end. Until the call is
/// issued, the caller must not evict blocks.
pub(crate) fn end_thread_for(program: &Program, number: usize, args: &[usize; 6]) {
    if matches!(number as i64, libc::SYS_execve | libc::SYS_execveat) {
        // The program's limits are set as late as possible, because the kernel then refuses
        // mappings of the runtime that exceed them.
        program.give_limits();
    }
    let is_prctl = number as i64 == libc::SYS_prctl;
    if is_prctl && args[0] as c_int == libc::PR_SET_MDWE {
        program.space.lock().leave_executable(&program.arena);
    }
    if filtered::is_confining(program, number, args) {
        confine(program);
    } else if calls::spec(number).is_some_and(|spec| spec.ends_own_thread.holds(args)) {
        // The compressor thread may start again when blocks are evicted.
        program.arena.rest();
    }
}

/// Ends the compressor thread and restores replaced instructions, because a filter will refuse
/// calls of the runtime. The compressor thread never starts again, because the filter may kill a
/// process that creates a thread.
fn confine(program: &Program) {
    let is_first = !program.is_confined.swap(true, Relaxed);
    program.is_newly_confined.fetch_or(is_first, Relaxed);
    page::set_confined(true);
    program.space.lock().leave_executable(&program.arena);
    dispatch::release_all_code();
    // A filter that a child of `vfork` installs does not apply to the child's parent.
    if program.arena.is_lent() {
        program.is_child_confined.fetch_or(is_first, Relaxed);
        return program.arena.rest();
    }
    debugged::stay_no_more(program);
    program.arena.end_thread();
}

/// Writes reports and pins the robust list before a call that ends the calling thread or process,
/// or executes a program.
pub(crate) fn before_end(program: &Program, call: &mut Call) {
    let number = call.number() as i64;
    match number {
        libc::SYS_exit if program.threads.load(Relaxed) > 1 => {}
        libc::SYS_exit | libc::SYS_exit_group => report::report_end(program),
        libc::SYS_execve | libc::SYS_execveat => {
            // The warning is written before the execution, because the next program can close
            // standard error before it ends.
            over_limit::warn_if_over_limit(program);
            report::begin_exec(program);
        }
        _ => return,
    }
    // A filter may kill the process for a call that the program does not make itself.
    if !program.is_confined.load(Relaxed) {
        robust::pin(&program.arena, call.note(), number == libc::SYS_exit);
    }
}
