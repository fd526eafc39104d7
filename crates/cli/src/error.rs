//! The exit codes of the command, and messages used by several of its modules.

use crate::log::log;
use measure::text::{counted, escaped};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub(crate) use measure::Error;

/// The exit code of a failure, such as an unreadable file, damaged or lost data, or a lack of
/// space.
const FAILED: u8 = 1;
/// The exit code of a wrong command line, which would fail on any machine and with any files.
pub(crate) const USAGE: u8 = 2;
/// The exit code that a shell reports for a process ended by SIGINT.
const INTERRUPTED: u8 = 130;

/// Prints an error. Returns the exit code.
pub(crate) fn report(error: &Error) -> ExitCode {
    log!("{error}");
    ExitCode::from(match error {
        Error::Usage(_) => USAGE,
        Error::Interrupted => INTERRUPTED,
        _ => FAILED,
    })
}

/// Returns the error for a failure whose message already contains the remedy.
pub(crate) fn failed(error: impl Display) -> Error {
    Error::Failed(error.to_string())
}

/// Returns the error for a saved file that lacks data.
pub(crate) fn saved_in_part(pages: u64, file: &Path) -> Error {
    Error::Failed(format!(
        "{} could not be read, and '{}' lacks what is listed; all else is saved: repair the \
         backing store and save again, or restore the file with 'uzram restore --salvage'",
        counted(pages, "page"),
        escaped(file)
    ))
}

/// Returns the error for an address space that is too small for the allocations that must not fail
/// later.
pub(crate) fn no_room() -> Error {
    failed(
        "the server can't be started: its address space is too small for the memory that it sets \
         aside to refuse clients and to save; raise 'ulimit -v', or give fewer --connections or \
         --threads",
    )
}

/// Returns the error for a thread of the server that can't be started.
pub(crate) fn no_thread(error: io::Error) -> Error {
    Error::Failed(format!(
        "the server can't be started: {error}; free memory, or raise this user's limit of threads \
         (ulimit -u)"
    ))
}

/// Returns the error for a signal handler that can't be installed.
pub(crate) fn no_handler(error: io::Error) -> Error {
    Error::Failed(format!(
        "signal handlers can't be installed: {error}; run without a filter of system calls \
         (seccomp)"
    ))
}
