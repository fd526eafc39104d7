//! What the command ends with when not all is well, and messages that several of its parts have.

use crate::log::log;
use measure::text::{counted, escaped};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub(crate) use measure::Error;

/// Stored not everything, it did not come back, or what is there is not as it must be: a file, a
/// place, room.
const FAILED: u8 = 1;
/// Wrong use: no machine and no file could make it right.
pub(crate) const USAGE: u8 = 2;
/// As a shell reports a process that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Prints an error; the code to end with comes back.
pub(crate) fn report(error: &Error) -> ExitCode {
    log!("{error}");
    ExitCode::from(match error {
        Error::Usage(_) => USAGE,
        Error::Interrupted => INTERRUPTED,
        _ => FAILED,
    })
}

/// A failure that says itself what is to be done.
pub(crate) fn failed(error: impl Display) -> Error {
    Error::Failed(error.to_string())
}

/// A saved file lacks something.
pub(crate) fn saved_in_part(pages: u64, file: &Path) -> Error {
    Error::Failed(format!(
        "{} could not be read, and '{}' lacks what is listed; all else is saved: repair the \
         backing store and save again, or restore the file with 'uzram restore --salvage'",
        counted(pages, "page"),
        escaped(file)
    ))
}

/// There is too little address space for what can't be refused later.
pub(crate) fn no_room() -> Error {
    failed(
        "the server can't be started: its address space is too small for the memory that it sets \
         aside to refuse clients and to save; raise 'ulimit -v', or give fewer --connections or \
         --threads",
    )
}

/// A server's thread could not be had.
pub(crate) fn no_thread(error: io::Error) -> Error {
    Error::Failed(format!(
        "the server can't be started: {error}; free memory, or raise this user's limit of threads \
         (ulimit -u)"
    ))
}

/// No signal handler could be installed.
pub(crate) fn no_handler(error: io::Error) -> Error {
    Error::Failed(format!(
        "signal handlers can't be installed: {error}; run without a filter of system calls \
         (seccomp)"
    ))
}
