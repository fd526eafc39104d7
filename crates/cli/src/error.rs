//! The errors of the command `uzram`, its exit codes, and messages that several modules share. Each
//! message is one line with the object, the reason and the remedy.

use crate::log::log;
use crate::text::{counted, escaped, human};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A wrong command line, which fails on every machine.
    #[error("{0}")]
    Usage(String),
    /// Another failure. For example, data were not stored or read back completely, a file is
    /// unsuitable, or memory is lacking.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    #[error("the device failed: {0}")]
    Device(#[from] zram::Error),
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns the error of a failed operation on the file at `path`.
    pub(crate) fn of_file(path: &Path, what: &str, why: impl Display, remedy: &str) -> Self {
        Error::Failed(format!("'{}' {what}: {why}; {remedy}", escaped(path)))
    }

    /// Returns the error for a parameter, such as a level, that the codec refuses.
    pub(crate) fn level(error: zcomp::Error) -> Self {
        Error::Usage(format!("--level: {error}"))
    }

    /// Returns the error of a worker thread that panicked.
    pub(crate) fn worker() -> Self {
        Error::Failed("a worker thread panicked; please report it".to_owned())
    }

    /// Returns the error for a lack of memory outside the device. The amount of this memory grows
    /// with the input.
    pub(crate) fn no_room(bytes: u64) -> Self {
        let bytes = human(bytes);
        Error::Failed(format!(
            "so much input needs {bytes} of memory beside the device, and there is less; bound it \
             with --input-limit"
        ))
    }
}

impl From<measure::Error> for Error {
    fn from(error: measure::Error) -> Self {
        match error {
            measure::Error::Interrupted => Error::Interrupted,
            error => Error::Failed(error.to_string()),
        }
    }
}

/// The exit code of a wrong command line.
pub(crate) const USAGE: u8 = 2;
/// The exit code with which a shell reports a process that SIGINT killed.
const INTERRUPTED: u8 = 130;

/// Prints an error, and returns the exit code.
pub(crate) fn report(error: &Error) -> ExitCode {
    log!("{error}");
    match error {
        Error::Usage(_) => ExitCode::from(USAGE),
        Error::Interrupted => ExitCode::from(INTERRUPTED),
        _ => ExitCode::FAILURE,
    }
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

/// Returns the error for a lack of address space for allocations that must not fail later.
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
