//! The errors of the commands. Each message is one line: the thing, the reason, the remedy.

use crate::text::escaped;
use std::fmt::Display;
use std::path::Path;

/// The error of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Wrong use, which would fail on any machine.
    #[error("{0}")]
    Usage(String),
    /// Data were not stored or read back completely, or a file, a directory or the memory is not as
    /// required.
    #[error("{0}")]
    Failed(String),
    /// A codec returned an error.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// The device returned an error.
    #[error("the device failed: {0}")]
    Device(#[from] zram::Error),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns the error of a failed operation on the file at `path`.
    pub fn of_file(path: &Path, what: &str, why: impl Display, remedy: &str) -> Self {
        Error::Failed(format!("'{}' {what}: {why}; {remedy}", escaped(path)))
    }

    /// Returns the error of a level or another parameter that the codec does not accept.
    pub fn level(error: zcomp::Error) -> Self {
        Error::Usage(format!("--level: {error}"))
    }

    /// Returns the error of a worker thread that panicked.
    pub fn worker() -> Self {
        Error::Failed("a worker thread panicked; please report it".to_owned())
    }

    /// Returns the error that the memory needed for each page of input, besides the memory of the
    /// device, is not available.
    pub(crate) fn no_room(bytes: u64) -> Self {
        let bytes = crate::text::human(bytes);
        Error::Failed(format!(
            "so much input needs {bytes} of memory beside the device, and there is less; bound it \
             with --input-limit"
        ))
    }
}
