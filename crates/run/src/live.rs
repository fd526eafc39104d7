//! The current figures of a program's processes: `uzram stat PID`.
//!
//! ```text
//!   PID -> /proc/PID/fd: the file that its processes share -> a copy -> figures of each process
//! ```
//! The numbers in the file are only displayed. They are not trusted, because the processes that
//! write the file may be hostile, or killed during a write.

use crate::figures::{Figures, KILLED, Line};
use crate::refusal::Refusal;
use crate::tree::{self, Found};
use procgroup::{GroupSnapshot, Presence, ProcessSnapshot, is_gone};
use rustix::io::Errno;
use rustix::process::Pid;
use serde_json::Value;
use std::fs::{metadata, read_dir, read_to_string};
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// A running program. The file that its processes share identifies the program.
#[derive(Debug)]
pub struct Program {
    /// The ID of one of the program's processes, or of the command that started the program.
    process: u64,
    file: Found,
    has_begun: bool,
}

impl Program {
    /// Returns the ID of the process by which the program was found.
    pub fn process(&self) -> u64 {
        self.process
    }

    /// Returns the current figures of the program's processes.
    pub fn figures(&self) -> Figures {
        self.now().0
    }

    /// Returns the current figures, and whether the processes belong to the PID namespace of this
    /// process.
    fn now(&self) -> (Figures, bool) {
        let Some(seen) = self.file.seen() else { return (Figures::default(), true) };
        let is_ours = metadata("/proc/self/ns/pid").is_ok_and(|space| space.ino() == seen.space);
        let lives = |process: &&ProcessSnapshot| {
            is_present(process) && (!is_ours || !is_gone(process.figures.process))
        };
        let lines = seen.processes.iter().filter(lives).filter_map(|seen| line(seen, is_ours));
        (Figures::new(lines.collect(), seen.held_max, Some(seen.is_short)), is_ours)
    }

    /// Returns the current figures, or `None` after all processes have ended. This process can't
    /// detect that a process in another PID namespace was killed. So a program in another PID
    /// namespace is treated as ended when the process by which the program was found ends.
    pub fn look(&mut self) -> Option<Figures> {
        let (figures, is_ours) = self.now();
        let has_any = !figures.processes.is_empty();
        let may_begin = !self.has_begun && !is_gone(self.process);
        self.has_begun |= has_any;
        let goes_on = if has_any { is_ours || !is_gone(self.process) } else { may_begin };
        goes_on.then_some(figures)
    }
}

/// Returns the figures of a process with its current name. If the current name is unknown, uses the
/// name that the process published.
fn line(seen: &ProcessSnapshot, is_ours: bool) -> Option<Line> {
    let path = format!("/proc/{}/comm", seen.figures.process);
    let name = is_ours.then(|| read_to_string(path).ok()).flatten();
    let name = name.as_deref().unwrap_or(&seen.name).trim_end_matches('\n');
    named(&seen.figures, &name.escape_debug().to_string())
}

/// Adds the process's name to its figures.
fn named(figures: &procgroup::Figures, name: &str) -> Option<Line> {
    let mut line: Line = serde_json::from_str(&figures.json()).ok()?;
    line.insert("name".to_owned(), Value::from(name));
    Some(line)
}

/// Returns the last published figures of each process that ended without a report, because a signal
/// killed it or because it could not write its report.
pub(crate) fn unreported(seen: &GroupSnapshot) -> Vec<Line> {
    let is_killed = |seen: &ProcessSnapshot| match seen.presence {
        Presence::Killed => true,
        Presence::Present => is_gone(seen.figures.process),
        Presence::Executes | Presence::Unreported => false,
    };
    let line = |seen: &ProcessSnapshot| {
        let mut line = named(&seen.figures, &seen.name)?;
        let is_killed = is_killed(seen);
        if is_killed {
            line.insert(KILLED.to_owned(), Value::from(true));
        }
        (is_killed || seen.presence == Presence::Unreported).then_some(line)
    };
    // A process that was killed before it published its figures has no figures to report.
    let has_figures = |seen: &&ProcessSnapshot| seen.figures.limit > 0;
    seen.processes.iter().filter(has_figures).filter_map(line).collect()
}

/// Returns whether a process has a slot in the shared file.
fn is_present(seen: &ProcessSnapshot) -> bool {
    matches!(seen.presence, Presence::Present | Presence::Executes)
}

/// Finds the program of `process` by the file that the program's processes share. Several shared
/// files exist if one `uzram run` was started within another. The innermost file in which the
/// process has a slot is used. For example, a program that has replaced an inner `uzram run` has a
/// slot in two files. If the process has no slot, like the command `uzram run` itself, the
/// innermost of all files is used.
///
/// # Errors
/// Fails with the reason why the program can't be shown.
pub fn find(process: Pid) -> Result<Program, Refusal> {
    let number = process.as_raw_nonzero().get();
    let shown = |why: &dyn std::fmt::Display, remedy: &str| {
        Refusal::Failed(format!("process {number} can't be shown: {why}; {remedy}"))
    };
    let of_io = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::SRCH) => {
            shown(&"there is none of this number", "take one that 'ps -e' lists")
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            shown(&error, "ask as the user that runs it, or as root")
        }
        _ => shown(&error, "see that /proc is mounted"),
    };
    let is_in = |seen: &GroupSnapshot| {
        seen.processes.iter().any(|of| is_present(of) && of.figures.process == number as u64)
    };
    let (mut found, mut refused) = (None, None);
    for entry in read_dir(format!("/proc/{number}/fd")).map_err(of_io)? {
        let entry = entry.map_err(of_io)?;
        let descriptor: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let file = match tree::open(&entry.path()) {
            Ok(file) => file,
            Err(error) => {
                refused = Some(error);
                continue;
            }
        };
        let Some((file, seen)) = file.and_then(|file| file.seen().map(|seen| (file, seen))) else {
            continue;
        };
        let rank = (is_in(&seen), descriptor);
        if found.as_ref().is_none_or(|(best, _)| *best < rank) {
            found = Some((rank, file));
        }
    }
    match (found, refused) {
        (Some((_, file)), _) => Ok(Program { process: number as u64, file, has_begun: false }),
        (None, Some(error)) => Err(of_io(error)),
        (None, None) => Err(shown(
            &"it is no process of a program that this version of 'uzram run' has started",
            "take one of such a program, or the command itself",
        )),
    }
}
