//! The figures and messages of a process: a line of JSON at its end, a snapshot for `uzram stat`
//! while it runs, and warnings.

use crate::cost::Costs;
use crate::executed::contents;
use crate::group::stat;
use crate::heap;
use crate::program::Program;
use crate::say::say;
use dispatch::system;
use procgroup::Figures;
use std::sync::atomic::Ordering::Relaxed;

impl Program {
    /// Reports, once per group, that the working set of this process is larger than the limit.
    fn say_if_slow(&self) {
        let may_say = || !self.is_confined.load(Relaxed) && self.is_heard();
        let lacks = self.member().and_then(|member| member.take_lacking(&self.arena, may_say));
        if let Some(lacks) = lacks {
            let limit = self.arena.stats().limit.unwrap_or(0);
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

    /// Returns whether standard error is still the one of `uzram run`. Messages to another file or
    /// pipe might be read by a program that does not expect them.
    pub(crate) fn is_heard(&self) -> bool {
        self.settings.stderr.is_some_and(|heard| {
            let facts = stat(libc::SYS_fstat, [libc::STDERR_FILENO as usize, 0]);
            facts.is_ok_and(|facts| (facts.st_dev as usize, facts.st_ino as usize) == heard)
        })
    }

    /// Returns the figures of this process, including the figures from before it executed its
    /// current program.
    pub(crate) fn figures(&self) -> Figures {
        let Costs { calls, timed, nanoseconds, signal } = self.cost.costs();
        let own = Figures {
            process: system(libc::SYS_getpid, [0; 6]).unwrap_or(0) as u64,
            tree_held_max: self.member().map_or(0, |member| member.group().held_max()),
            heap: heap::mapped() as u64,
            calls,
            calls_timed: timed,
            calls_timed_ns: nanoseconds,
            signal_ns: signal,
            ..match self.member() {
                Some(member) => member.figures(&self.arena),
                None => Figures::of(&self.arena.stats()),
            }
        };
        match self.member() {
            Some(member) => member.with_before(own),
            None => own,
        }
    }

    /// Publishes that this process holds no memory, because it is about to execute a program.
    pub(crate) fn begin_exec(&self) {
        self.member().into_iter().for_each(|member| member.begin_exec(&self.figures()));
    }

    /// Undoes [`begin_exec`](Self::begin_exec) after the kernel refused to execute the program.
    pub(crate) fn exec_failed(&self) {
        self.member().into_iter().for_each(|member| member.exec_failed(&self.arena));
    }

    /// Appends the figures of this process to the file in the settings. Returns false if the
    /// settings contain a file and the process could not write to it. A child of `vfork` does not
    /// write, because its figures are part of its parent's figures.
    fn report(&self) -> bool {
        let Some(path) = &self.settings.stats else { return true };
        if self.arena.is_lent() {
            return true;
        }
        if self.is_silent.load(Relaxed) {
            return false;
        }
        let figures = self.figures().json();
        // A filter may end the program for calls that the program does not make itself.
        let name = if self.is_confined.load(Relaxed) { String::new() } else { name() };
        write(path, &format!("{{\"name\":\"{name}\",{}", &figures[1..]))
    }

    /// Reports the figures of this process, which is about to end, and leaves its group.
    pub(crate) fn report_end(&self) {
        self.warn_if_over_limit();
        let is_reported = self.report();
        if !is_reported {
            self.show();
        }
        self.member().into_iter().for_each(|member| member.leave(is_reported));
    }

    /// Publishes the figures of this process for `uzram stat`.
    pub(crate) fn show(&self) {
        self.member().into_iter().for_each(|member| member.show(&self.figures()));
    }

    /// Publishes the figures if the next publication is due.
    pub(crate) fn show_now_and_then(&self) {
        if let Some(member) = self.member().filter(|member| member.is_show_due()) {
            self.show();
            if !self.is_confined.load(Relaxed) {
                member.weigh_shared();
            }
            self.say_if_slow();
        }
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
    let path: Vec<u8> = path.iter().copied().chain([0]).collect();
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC;
    let opened = [libc::AT_FDCWD as usize, path.as_ptr().addr(), flags as usize, 0, 0, 0];
    let Ok(file) = system(libc::SYS_openat, opened) else { return false };
    let args = [file, line.as_ptr().addr(), line.len(), 0, 0, 0];
    let written = system(libc::SYS_write, args);
    let _closed = system(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
    written == Ok(line.len())
}
