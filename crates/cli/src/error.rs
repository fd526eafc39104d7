//! Why the command ends with anything but 0, and with what.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Stored not everything, or it did not come back.
const FAILED: u8 = 1;
/// Wrong use.
pub(crate) const USAGE: u8 = 2;
/// As a shell reports a process that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// What went wrong. Each message is one line: the thing, and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A path given does not lead to anything.
    #[error("path '{}' can't be used: {source}; give a file or a directory", escaped(path))]
    Path {
        /// The path as given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is nothing to store.
    #[error(
        "no regular file at or under '{}'{}; give files, or directories that hold some",
        escaped(first), Others(*others)
    )]
    NoFile {
        /// The first path given.
        first: PathBuf,
        /// How many more there were.
        others: usize,
    },
    /// More than a device holds.
    #[error("more than 16 TiB under '{}'; bound it with --input-limit", escaped(path))]
    TooLarge {
        /// The path given that passes the bound.
        path: PathBuf,
    },
    /// The codec can't do what is asked for.
    #[error("--level: {0}")]
    Level(zcomp::Error),
    /// The codec failed.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[from] zram::Error),
    /// The limit, or what the system gives, was reached.
    #[error(
        "out of memory: {stored} of {planned} pages are stored, and {verdict}; \
         raise --mem-limit ({limit}) or give less with --input-limit ({source})"
    )]
    OutOfMemory {
        /// Pages that are stored.
        stored: u64,
        /// Pages that were to be.
        planned: u64,
        /// What reading them back gave.
        verdict: &'static str,
        /// The limit in words.
        limit: String,
        /// What the device says.
        source: zram::Error,
    },
    /// Pages came back changed.
    #[error("{pages} pages did not read back as written, the first in '{first}'; please report it")]
    Mismatch {
        /// How many.
        pages: u64,
        /// The file the first of them is of, escaped.
        first: String,
    },
    /// A worker thread could not be had.
    #[error("thread {nth} can't be started: {source}; use fewer with --threads")]
    Thread {
        /// Which of them, from 1.
        nth: usize,
        /// What the system says.
        source: io::Error,
    },
    /// A worker thread panicked.
    #[error("a worker thread panicked; please report it")]
    Worker,
    /// The signal handler could not be installed.
    #[error("SIGINT can't be handled: {0}; run without a filter on system calls")]
    Signal(io::Error),
    /// The report could not be written.
    #[error("standard output can't be written: {0}; check where it goes")]
    Output(io::Error),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// The end of a list of which only the first is named.
struct Others(usize);

impl std::fmt::Display for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " and {} more", self.0) }
    }
}

/// A path as it may be printed: on one line, without control characters.
pub(crate) fn escaped(path: &std::path::Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

impl Error {
    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Error::Path { .. } | Error::NoFile { .. } | Error::TooLarge { .. } => USAGE,
            Error::Level(_) => USAGE,
            Error::Interrupted => INTERRUPTED,
            _ => FAILED,
        })
    }
}
