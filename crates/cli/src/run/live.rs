//! What the processes of a program hold and have done by now: `uzram stat PID`.
//!
//! ```text
//!   PID -> /proc/PID/fd: the file that its processes share -> a copy -> figures of each process
//! ```
//! The file is written by programs that may be anyone's, or were killed midway: its numbers are
//! shown as they are, and nothing else is done with them.

use super::figures::{Figures, KILLED, Line};
use super::tree::{self, Found};
use crate::error::{Error, failed};
use rustix::io::Errno;
use rustix::process::Pid;
use serde_json::Value;
use std::fs::{metadata, read_dir, read_link, read_to_string};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use zmem::{Seen, SeenProcess};

/// A program: what its processes share.
#[derive(Debug)]
pub(crate) struct Program {
    /// One of its processes, or the command.
    process: u64,
    file: Found,
    has_begun: bool,
}

impl Program {
    /// Returns the number of the process that it was found by.
    pub(crate) fn process(&self) -> u64 {
        self.process
    }

    /// Returns what its processes hold and have done by now.
    pub(crate) fn figures(&self) -> Figures {
        self.now().0
    }

    /// Returns the same, and whether numbers of processes are this process's own.
    fn now(&self) -> (Figures, bool) {
        let Some(seen) = self.file.seen() else { return (Figures::default(), true) };
        let is_ours = metadata("/proc/self/ns/pid").is_ok_and(|space| space.ino() == seen.space);
        let lives = |process: &&SeenProcess| {
            !process.has_ended && (!is_ours || !is_gone(process.figures.process))
        };
        let lines = seen.processes.iter().filter(lives).filter_map(|seen| line(seen, is_ours));
        (Figures::new(lines.collect(), seen.held_max, Some(seen.is_short)), is_ours)
    }

    /// Returns the same, or `None` once all of its processes have ended. Of those of another space
    /// no one sees here whether one was killed: then it is the one that it was found by which ends.
    pub(crate) fn look(&mut self) -> Option<Figures> {
        let (figures, is_ours) = self.now();
        let has_any = !figures.processes().is_empty();
        let may_begin = !self.has_begun && !is_gone(self.process);
        self.has_begun |= has_any;
        let goes_on = if has_any { is_ours || !is_gone(self.process) } else { may_begin };
        goes_on.then_some(figures)
    }
}

/// Returns the figures of a process, with its present name, or the one that it began with.
fn line(seen: &SeenProcess, is_ours: bool) -> Option<Line> {
    let path = format!("/proc/{}/comm", seen.figures.process);
    let name = is_ours.then(|| read_to_string(path).ok()).flatten();
    named(&seen.figures, name.as_deref().unwrap_or(&seen.name).trim_end_matches('\n'))
}

/// Returns the figures of a process and its name.
fn named(figures: &zmem::Figures, name: &str) -> Option<Line> {
    let mut line: Line = serde_json::from_str(&figures.json()).ok()?;
    line.insert("name".to_owned(), Value::from(name.escape_debug().to_string()));
    Some(line)
}

/// Returns the figures of processes that have ended without a report, as if a signal killed them:
/// those that they showed last.
pub(super) fn killed(seen: &Seen) -> Vec<Line> {
    let has_ended = |seen: &&SeenProcess| seen.has_ended || is_gone(seen.figures.process);
    let killed = |seen: &SeenProcess| {
        let mut line = named(&seen.figures, &seen.name)?;
        line.insert(KILLED.to_owned(), Value::from(true));
        Some(line)
    };
    seen.processes.iter().filter(has_ended).filter_map(killed).collect()
}

/// Returns whether a process runs no program: there is none of the number, or it has ended and was
/// not waited for.
fn is_gone(process: u64) -> bool {
    let link = read_link(format!("/proc/{process}/exe"));
    link.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Finds a program by the file that one of its processes shares with others: where there are
/// several, as of a program that was started within another one's, the innermost in which it has a
/// place (a command that became a program has one in both); or the innermost, as of the command
/// itself.
pub(crate) fn find(process: Pid) -> Result<Program, Error> {
    let number = process.as_raw_nonzero().get();
    let shown = |why: &dyn std::fmt::Display, remedy: &str| {
        failed(format!("process {number} can't be shown: {why}; {remedy}"))
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
    let is_in = |seen: &Seen| {
        seen.processes.iter().any(|of| !of.has_ended && of.figures.process == number as u64)
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
