//! Reports the statistics of a process, and warnings. The statistics are written as a line of JSON
//! when the process ends, and published for `uzram stat` while the process runs.

use crate::cost::Costs;
use crate::executed::contents;
use crate::heap;
use crate::over_limit;
use crate::program::Program;
use crate::say::say;
use dispatch::{OwnFile, system};
use procgroup::{Figures, take_lacking};
use std::ffi::CString;
use std::sync::atomic::Ordering::Relaxed;

/// Reports, once per group, that the working set of this process is larger than the limit.
fn say_if_slow(program: &Program) {
    let may_say = || program.may_say();
    let lacks = program.member().and_then(|own| take_lacking(own, &program.arena, may_say));
    if let Some(lacks) = lacks {
        let limit = program.arena.stats().limit.unwrap_or(0);
        let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
        say(&format_args!(
            "process {process} ({}) spent more than half of the last 10 s on page faults, \
             because it uses more memory at a time than the limit of {} KiB; about \
             --limit {}K would hold what it uses now",
            name(),
            limit >> 10,
            limit.saturating_add(lacks) >> 10
        ));
    }
}

/// Returns the statistics of this process, including those from before it executed its current
/// program.
pub(crate) fn figures(program: &Program) -> Figures {
    let Costs { calls, timed, nanoseconds, signal } = program.cost.costs();
    let own = Figures {
        process: system(libc::SYS_getpid, [0; 6]).unwrap_or(0) as u64,
        tree_held_max: program.member().map_or(0, |member| member.group().held_max()),
        heap: heap::mapped() as u64,
        calls,
        calls_timed: timed,
        calls_timed_ns: nanoseconds,
        signal_ns: signal,
        ..match program.member() {
            Some(member) => member.figures(&program.arena),
            None => Figures::of(&program.arena.stats()),
        }
    };
    match program.member() {
        Some(member) => member.with_before(own),
        None => own,
    }
}

/// Publishes that this process holds no memory, because it is about to execute a program.
pub(crate) fn begin_exec(program: &Program) {
    program.member().into_iter().for_each(|member| member.begin_exec(&figures(program)));
}

/// Undoes [`begin_exec`] after the kernel refused to execute the program.
pub(crate) fn exec_failed(program: &Program) {
    program.member().into_iter().for_each(|member| member.exec_failed(&program.arena));
}

/// Appends the statistics of this process to the file in the settings. Returns false if the
/// settings contain a file and the process could not write to it. A child of `vfork` does not
/// write, because its parent's statistics include those of the child.
fn report(program: &Program) -> bool {
    let Some(path) = &program.settings.stats else { return true };
    if program.arena.is_lent() {
        return true;
    }
    if program.is_silent.load(Relaxed) {
        return false;
    }
    let figures = figures(program).json();
    // A filter may kill the process for calls that the program does not make itself.
    let name = if program.is_confined.load(Relaxed) { String::new() } else { name() };
    write(path, &format!("{{\"name\":\"{name}\",{}", &figures[1..]))
}

/// Reports the statistics of this process, which is about to end, and leaves its group.
pub(crate) fn report_end(program: &Program) {
    over_limit::warn_if_over_limit(program);
    over_limit::warn_if_exceeded(program);
    let is_reported = report(program);
    if !is_reported {
        show(program);
    }
    program.member().into_iter().for_each(|member| member.leave(is_reported));
}

/// Publishes the statistics of this process for `uzram stat`.
pub(crate) fn show(program: &Program) {
    program.member().into_iter().for_each(|member| member.show(&figures(program)));
}

pub(crate) fn show_now_and_then(program: &Program) {
    if let Some(member) = program.member().filter(|member| member.is_show_due()) {
        show(program);
        if !program.is_confined.load(Relaxed) {
            member.weigh_shared();
        }
        say_if_slow(program);
    }
}

/// Returns the name of this process from /proc, escaped for a JSON string.
fn name() -> String {
    let name = contents("/proc/self/comm");
    let name = String::from_utf8_lossy(&name);
    let escape = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    name.trim_end_matches('\n').chars().map(escape).collect()
}

/// Appends a line to a file. Returns whether the whole line was written.
fn write(path: &[u8], line: &str) -> bool {
    let Ok(path) = CString::new(path) else { return false };
    let Ok(file) = OwnFile::open(&path, libc::O_WRONLY | libc::O_APPEND) else { return false };
    let args = [file.descriptor(), line.as_ptr().addr(), line.len(), 0, 0, 0];
    system(libc::SYS_write, args) == Ok(line.len())
}
