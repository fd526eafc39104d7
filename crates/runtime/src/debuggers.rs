//! Debuggers: programs of the group that access the memory of another process by ptrace or
//! /proc/PID/mem. A process that opens its own /proc/PID/mem is handled as its own debugger.
//!
//! ```text
//!   before PTRACE_ATTACH, PTRACE_SEIZE -> a signal: the process fills all of its blocks, and then
//!   after `open` of /proc/PID/mem         evicts nothing (zm-L19) -> its slot: KEEPS | WHOLE
//!   after PTRACE_DETACH                -> a signal: no tracer, and no such file is open?
//!   a call or a fault of the process   ->           then it evicts again
//! ```
//! pl-30: all data of a debugged process are resident, so the debugger's reads need not be
//! intercepted. The process itself detects that the debugger has left, even if the debugger was
//! killed.

use crate::debugged;
use crate::peers::pause;
use crate::policy::{PEER_TRIES, TRIES_OF_KEEPING, TRIES_OF_LOOK, TRIES_OF_SIGNAL};
use crate::program::Program;
use crate::threads::{is_own, is_stopped, may_ask, threads_of};
use crate::watch::{is_of_own, link, of_file, thread_of, traced};
use dispatch::{Call, Outcome, read_memory, system};
use procgroup::{GroupMember, Kept, ProcessGroup, Request};
use std::sync::atomic::Ordering::Relaxed;

/// Returns whether a call may open a file in /proc. Most calls that open other files never reach
/// the hook (di-12).
fn may_be_of_proc(call: &Call) -> bool {
    let [first, second, ..] = call.args();
    let path = if call.number() as i64 == libc::SYS_open { first } else { second };
    let mut head = [0; 2];
    read_memory(path, &mut head) && head == *b"/p"
}

/// Makes the memory of another process of the group resident before a call that attaches to that
/// process.
pub(crate) fn prepare_attach(program: &Program, number: usize, args: &[usize; 6]) {
    let [request, thread, ..] = *args;
    if number as i64 == libc::SYS_ptrace
        && matches!(request as u32, libc::PTRACE_ATTACH | libc::PTRACE_SEIZE)
    {
        keep_peer(program, thread as u64, thread as u64);
    }
}

/// After a call that has opened the memory of another process of the group, makes that memory
/// resident. After a detach, asks the process of the detached thread to evict again.
pub(crate) fn after_debugger(program: &Program, call: &Call, outcome: Outcome) {
    let Outcome::Returned(result @ 0..) = outcome else { return };
    let [first, second, ..] = call.args();
    match call.number() as i64 {
        libc::SYS_ptrace if first as u32 == libc::PTRACE_DETACH => {
            ask_to_look(program, second as u64);
        }
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2
            if may_be_of_proc(call) && peer_group(program).is_some() =>
        {
            let own = system(libc::SYS_getpid, [0; 6]).unwrap_or(0) as u64;
            let path = link(own, result as u64);
            let word = of_file(own, result as u64);
            match path.ok().and_then(|path| thread_of(&path)) {
                Some(thread) if is_of_own(thread) => keep_own(program, word),
                Some(thread) => keep_peer(program, thread, word),
                None => {}
            }
        }
        _ => {}
    }
}

fn peer_group(program: &Program) -> Option<&ProcessGroup> {
    // A filter of the program may kill the process for calls that the program does not make itself.
    // A child of `vfork` shares its parent's memory, so the child is not handled as a debugger.
    let is_free = !program.is_confined.load(Relaxed) && !program.arena.is_lent();
    program.member().filter(|_| is_free).map(GroupMember::group)
}

/// Makes all memory of this process resident, and evicts nothing while the file that `word`
/// identifies is open. Through this file the process accesses its own memory without faults.
fn keep_own(program: &Program, word: u64) {
    program.watch.note(word);
    debugged::stay(program, word);
    for _ in 0..PEER_TRIES {
        if program.member().is_none_or(GroupMember::is_whole) {
            return;
        }
        pause(program);
    }
}

/// Waits until the process of `thread` keeps all of its memory resident for the debugger that
/// `word` identifies. Returns at once if the process is this process, or is outside the group.
fn keep_peer(program: &Program, thread: u64, word: u64) {
    let Some(group) = peer_group(program) else { return };
    let Some((process, tracer)) = traced(thread).filter(|(process, _)| !is_own(*process)) else {
        return;
    };
    let kept = group.kept(process as u64);
    // While a thread of a process has a tracer, the process keeps its memory resident.
    let has_tracer = || tracer != 0 || traced(process as u64).is_some_and(|(_, by)| by != 0);
    if kept.is_none() || is_stopped(process, process) {
        return;
    }
    if kept == Some(Kept::All) && has_tracer() {
        return;
    }
    group.begin_keeping(process as u64);
    for nth in 0..TRIES_OF_KEEPING {
        match group.kept(process as u64) {
            None | Some(Kept::All) => return,
            // More than `PEER_TRIES` tries are made only if the process has begun to fill its
            // blocks for this debugger.
            Some(now)
                if nth >= PEER_TRIES && (now, kept) != (Kept::Partly, Some(Kept::Nothing)) =>
            {
                return;
            }
            _ => {}
        }
        if nth % TRIES_OF_SIGNAL == 0 {
            if is_stopped(process, process) {
                return;
            }
            ask_any(group, process, Request::Stay(word));
        }
        pause(program);
    }
}

/// Sends `request` to the first thread of a process that can handle the request.
fn ask_any(group: &ProcessGroup, process: usize, request: Request) {
    let may_ask = |thread: &usize| {
        !is_stopped(process, *thread) && may_ask(process, *thread, |it| it.is_interrupted)
    };
    if let Some(thread) = threads_of(process).into_iter().find(may_ask) {
        group.ask(process as u64, thread as u64, request);
    }
}

/// Asks the process of `thread` to check for debuggers and to evict again, because a debugger has
/// detached from `thread`.
fn ask_to_look(program: &Program, thread: u64) {
    let Some(group) = peer_group(program) else { return };
    let Some((process, _)) = traced(thread) else { return };
    let is_traced = || traced(process as u64).is_none_or(|(_, tracer)| tracer != 0);
    for nth in 0..TRIES_OF_LOOK {
        if matches!(group.kept(process as u64), None | Some(Kept::Nothing)) {
            return;
        }
        if nth % TRIES_OF_SIGNAL == 0 {
            if is_traced() {
                return;
            }
            ask_any(group, process, Request::Look);
        }
        pause(program);
    }
}
