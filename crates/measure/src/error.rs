//! Why a command ends with anything but 0. Each message is one line: the thing, why, the remedy.

use crate::text::escaped;
use std::fmt::Display;
use std::path::Path;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Wrong use: no machine and no file could make it right.
    #[error("{0}")]
    Usage(String),
    /// Not everything was stored or came back, or what is there is not as it must be: a file, a
    /// place, room.
    #[error("{0}")]
    Failed(String),
    /// The codec failed.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[from] zram::Error),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A failure of what is to be done to the file at `path`.
    pub fn of_file(path: &Path, what: &str, why: impl Display, remedy: &str) -> Self {
        Error::Failed(format!("'{}' {what}: {why}; {remedy}", escaped(path)))
    }

    /// A level, or what else the codec can't be asked for.
    pub fn level(error: zcomp::Error) -> Self {
        Error::Usage(format!("--level: {error}"))
    }

    /// A worker thread panicked.
    pub fn worker() -> Self {
        Error::Failed("a worker thread panicked; please report it".to_owned())
    }

    /// What is held for each page of input, beside the device, does not fit in memory.
    pub(crate) fn no_room(bytes: u64) -> Self {
        let bytes = crate::text::human(bytes);
        Error::Failed(format!(
            "so much input needs {bytes} of memory beside the device, and there is less; bound it \
             with --input-limit"
        ))
    }
}
