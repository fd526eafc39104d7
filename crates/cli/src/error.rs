//! Why the command ends with anything but 0, and with what.

use crate::log::log;
use measure::Error as Measured;
use measure::text::{escaped, human};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Stored not everything, it did not come back, or what is there is not as it must be: a file, a
/// place, room.
const FAILED: u8 = 1;
/// Wrong use: no machine and no file could make it right.
pub(crate) const USAGE: u8 = 2;
/// As a shell reports a process that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// What went wrong. Each message is one line: the thing, and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// No device has this size.
    #[error("--size: {0}")]
    Size(zram::Error),
    /// What is saved does not fit.
    #[error(
        "--size: {size} bytes are too few: the saved disk has {needed}; give at least as many, or \
         leave out --size"
    )]
    SizeOfSaved {
        /// Bytes asked for.
        size: u64,
        /// Bytes it must have.
        needed: u64,
    },
    /// The disk is not where it was to be.
    #[error(
        "the disk could not be saved to '{}': {why}; it is saved to '{}' instead: restore it from \
         there, and give --save-on-exit another path",
        escaped(path),
        escaped(to)
    )]
    SavedElsewhere {
        /// Where it was to go.
        path: PathBuf,
        /// Where it is.
        to: PathBuf,
        /// Why it is not where it was to go.
        why: String,
    },
    /// Two servers would replace what the other saves.
    #[error("another running server saves to '{}' when it ends; give another path", escaped(path))]
    SavedByAnother {
        /// Where that is.
        path: PathBuf,
    },
    /// A second signal came.
    #[error(
        "the disk was not saved to '{}' and is lost, because another signal ended the save; a file \
         that was there before is unchanged",
        escaped(path)
    )]
    SaveGivenUp {
        /// Where it was to go.
        path: PathBuf,
    },
    /// There can be no server there.
    #[error(transparent)]
    Address(serve::AddressError),
    /// The directory of sockets can't be used.
    #[error(
        "'{}' can't hold a server's sockets: {source}; set XDG_RUNTIME_DIR, or give --nbd and --control",
        escaped(path)
    )]
    RuntimeDir {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The device can't be mounted.
    #[error(
        "can't mount at '{}': {source}; give an existing directory ('umount' what a killed server \
         left mounted there), and be root or install fuse3",
        escaped(path)
    )]
    Mount {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A server's thread could not be had.
    #[error(
        "the server can't be started: {0}; free memory, or raise this user's limit of threads \
         (ulimit -u)"
    )]
    Serving(io::Error),
    /// There is too little address space for what can't be refused later.
    #[error(
        "the server can't be started: its address space is too small for the memory that it sets \
         aside to refuse clients and to save; raise 'ulimit -v', or give fewer --connections or \
         --threads"
    )]
    Room,
    /// A server refused, or did not answer.
    #[error(transparent)]
    Ask(serve::control::AskError),
    /// A saved file is refused.
    #[error("{0}")]
    Restore(zram::Error),
    /// What is saved does not fit.
    #[error("'{}' can't be restored: {source}; raise --mem-limit, or free memory", escaped(path))]
    RestoreRoom {
        /// The file.
        path: PathBuf,
        /// What refused.
        source: zsmalloc::Error,
    },
    /// What is saved takes more than it may.
    #[error(
        "'{}' can't be restored: it needs more than the limit of {} for compressed pages, or more \
         than a quarter of that for tables; raise --mem-limit, or free memory",
        escaped(path),
        human(i64::try_from(*limit).unwrap_or(i64::MAX))
    )]
    RestoreLimit {
        /// The file.
        path: PathBuf,
        /// Bytes of the limit.
        limit: u64,
    },
    /// Not even the intact of a saved file can be had.
    #[error(
        "nothing of '{}' can be restored, even with --salvage: at offset {offset}: {reason}; \
         restore an earlier save",
        escaped(path)
    )]
    NotSalvaged {
        /// The file.
        path: PathBuf,
        /// Where in it something is wrong.
        offset: u64,
        /// What is.
        reason: String,
    },
    /// Some of a saved file is lost.
    #[error("{bytes} bytes of '{file}' are lost, as listed; they read as zeros")]
    Lost {
        /// How many.
        bytes: u64,
        /// Where they were.
        file: String,
    },
    /// A saved file lacks something.
    #[error(
        "{pages} pages could not be read, and '{file}' lacks them, as listed; all else is saved: \
         repair the backing store and save again, or restore the file with 'uzram restore \
         --salvage'"
    )]
    SavedInPart {
        /// How many.
        pages: u64,
        /// The file, escaped.
        file: String,
    },
    /// Some data that a job was to work on are damaged.
    #[error(
        "{pages} damaged pages or blocks were skipped, all others are done; write to them again, \
         or restore a saved disk"
    )]
    Damaged {
        /// How many.
        pages: u64,
    },
    /// What is measured, or was asked for in words that others share, failed.
    #[error(transparent)]
    Measure(#[from] measure::Error),
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[from] zram::Error),
    /// There can be no file where it is to go.
    #[error(
        "can't create a file at '{}': {source}; give a path in a writable directory",
        escaped(path)
    )]
    OutPath {
        /// The path as given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What a server needs would be in its own mount.
    #[error(
        "{flag} '{}' lies in the directory given to --mount, and the mount would hide it; give \
         another path",
        escaped(path)
    )]
    InMount {
        /// The argument.
        flag: &'static str,
        /// Its path.
        path: PathBuf,
    },
    /// A server can't be told of it.
    #[error(
        "'{}' is not valid UTF-8, and a server takes no other paths; give another path",
        escaped(path)
    )]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// Two sockets would be one.
    #[error("--nbd and --control are both at '{}'; give each a path of its own", escaped(path))]
    OneSocket {
        /// The path.
        path: PathBuf,
    },
    /// Names that are made from a file's are too long.
    #[error(
        "nothing can be saved to '{}': its name is too long, as a save makes files beside it with \
         longer names; give a shorter one",
        escaped(path)
    )]
    LongName {
        /// The path.
        path: PathBuf,
    },
    /// The file could not be written; what was there before still is.
    #[error("'{}' can't be written: {source}; make room, or give another path", escaped(path))]
    OutFile {
        /// The path as given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The signal handler could not be installed.
    #[error(
        "signal handlers can't be installed: {0}; run without a filter of system calls (seccomp)"
    )]
    Signal(io::Error),
    /// The report could not be written.
    #[error("can't write to standard output: {0}; check where it is redirected")]
    Output(io::Error),
}

impl Error {
    /// Prints it; the code to end with comes back.
    pub(crate) fn report(&self) -> ExitCode {
        log!("{self}");
        self.exit_code()
    }

    /// Returns what the process ends with.
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Error::LongName { .. } | Error::NotText { .. } => USAGE,
            Error::InMount { .. } | Error::OneSocket { .. } => USAGE,
            Error::Size(zram::Error::Disksize { .. }) | Error::SizeOfSaved { .. } => USAGE,
            Error::Measure(Measured::Interrupted) => INTERRUPTED,
            Error::Measure(Measured::Level(_) | Measured::Geometry { .. }) => USAGE,
            Error::Measure(Measured::KernelOnly { .. }) => USAGE,
            Error::Measure(Measured::Setting(error)) => match error {
                zram::Error::File { .. } => FAILED,
                _ => USAGE,
            },
            _ => FAILED,
        })
    }
}
