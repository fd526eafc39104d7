//! Why the command ends with anything but 0, and with what.

use crate::log::log;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use zsmalloc::GeometryError;

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
    /// What is held for each page of input, beside the device, does not fit in memory.
    #[error(
        "{} of memory are needed beside the device for so much input, and there is less; \
         bound it with --input-limit",
        crate::units::human(*bytes as i64)
    )]
    NoRoom {
        /// Bytes needed.
        bytes: u64,
    },
    /// The codec can't do what is asked for.
    #[error("--level: {0}")]
    Level(zcomp::Error),
    /// An attribute can't have the value.
    #[error("--set: {0}")]
    Setting(zram::Error),
    /// There are no such size classes.
    #[error("{flag}: {source}")]
    Geometry {
        /// The argument that is to blame.
        flag: &'static str,
        /// What there is instead.
        source: GeometryError,
    },
    /// A choice of the kernel's geometry with the native one.
    #[error(
        "{flags}: such choices belong to --geometry kernel, and the geometry is native; \
         add --geometry kernel, or leave out {flags}"
    )]
    KernelOnly {
        /// The arguments, with commas.
        flags: String,
    },
    /// No device has this size.
    #[error("--size: {0}")]
    Size(zram::Error),
    /// What is saved does not fit.
    #[error(
        "--size: {size} bytes are too few for what is saved, which needs {needed}; give as many, or leave out --size"
    )]
    SizeOfSaved {
        /// Bytes asked for.
        size: u64,
        /// Bytes it must have.
        needed: u64,
    },
    /// The disk is not where it was to be.
    #[error(
        "the disk could not be saved to '{}': {why}; it is saved to '{}' instead: restore it from there, and give another \
         path",
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
    #[error("another server saves to '{}' when it ends; give another path", escaped(path))]
    SavedByAnother {
        /// Where that is.
        path: PathBuf,
    },
    /// A second signal came.
    #[error(
        "the disk was not saved to '{}', and is lost, as another signal came; what was there before is left",
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
        "can't mount at '{}': {source}; give a directory that is there (of a server that was killed: 'umount' it), and \
         be root or install fuse3",
        escaped(path)
    )]
    Mount {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A server's thread could not be had.
    #[error("the server can't be started: {0}; free memory, or let this user have more threads")]
    Serving(io::Error),
    /// There is too little address space for what can't be refused later.
    #[error(
        "the server can't be started: its address space is too small for what it must not run out of; raise 'ulimit -v', \
         or ask for fewer --connections or --threads"
    )]
    Room,
    /// A server refused, or did not answer.
    #[error(transparent)]
    Ask(serve::control::AskError),
    /// The codec failed.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
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
        "'{}' can't be restored: it takes more than the limit of {} for compressed pages, or than a quarter as much beside \
         them; raise --mem-limit, or free memory",
        escaped(path),
        crate::units::human(i64::try_from(*limit).unwrap_or(i64::MAX))
    )]
    RestoreLimit {
        /// The file.
        path: PathBuf,
        /// Bytes of the limit.
        limit: u64,
    },
    /// Not even the intact of a saved file can be had.
    #[error(
        "nothing of '{}' can be restored, also by --salvage: at offset {offset}: {reason}; take an earlier one",
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
        "{pages} pages could not be read, and '{file}' lacks them, as listed; all else is saved: see to the backing \
         store and save again, or take it with 'uzram restore --salvage'"
    )]
    SavedInPart {
        /// How many.
        pages: u64,
        /// The file, escaped.
        file: String,
    },
    /// Some data that a job was to work on are damaged.
    #[error(
        "{pages} pages or blocks of them are damaged and were left; all else is done: write them anew"
    )]
    Damaged {
        /// How many.
        pages: u64,
    },
    /// There can be no such backing store.
    #[error(
        "--backing '{}' can't be used: {source}; name a file that is not there yet, or a block device",
        escaped(path)
    )]
    Backing {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The device could not be saved.
    #[error("--save: {0}; what was there before is left")]
    Save(zram::Error),
    /// What is idle could not be written back.
    #[error("--backing '{}': {source}; make room, or name another file", escaped(path))]
    WriteBack {
        /// Its path.
        path: PathBuf,
        /// What came in between.
        source: zram::Error,
    },
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[from] zram::Error),
    /// The limit was reached.
    #[error(
        "the memory limit of {limit} is reached after {stored}; \
         raise --mem-limit, or give less with --input-limit"
    )]
    Limit {
        /// The limit in words.
        limit: String,
        /// What there is.
        stored: Stored,
    },
    /// The limit of all memory was reached.
    #[error(
        "all memory would pass its limit of {limit} after {stored}; \
         raise total_limit, or give less with --input-limit"
    )]
    TotalLimit {
        /// The limit in words.
        limit: String,
        /// What there is.
        stored: Stored,
    },
    /// The system gives no more.
    #[error("out of memory after {stored}: {source}; lift that, or give less with --input-limit")]
    OutOfMemory {
        /// What there is.
        stored: Stored,
        /// What was refused.
        source: zsmalloc::Error,
    },
    /// Pages came back changed.
    #[error("{pages} pages did not read back as written, the first in '{first}'; please report it")]
    Mismatch {
        /// How many.
        pages: u64,
        /// The file the first of them is of, escaped.
        first: String,
    },
    /// There is too little to train a dictionary with.
    #[error(
        "{given} blocks of {block} bytes, those of one word left out, are too few for a dictionary of \
         {size} bytes, which takes {needed}; give more files, or a smaller --size"
    )]
    TooFewBlocks {
        /// Blocks there are.
        given: usize,
        /// Blocks it takes.
        needed: usize,
        /// Bytes of a block.
        block: usize,
        /// Bytes of the dictionary.
        size: usize,
    },
    /// There can be no file where it is to go.
    #[error(
        "no file can be made at '{}': {source}; give a path in a directory that can be written to",
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
        "{flag} '{}' lies in the directory that --mount is given, and would be hidden by it; give another path",
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
        "'{}' is not in UTF-8, and a server takes no other paths; give another one",
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
        "nothing can be saved to '{}': its name is too long, as others are made from it beside it; give a shorter one",
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
    /// Blocks came back changed from a codec.
    #[error("{codec} did not give blocks back as they were; please report it")]
    Codecs {
        /// The codec's name.
        codec: &'static str,
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
    #[error("signals can't be handled: {0}; run without a filter on system calls")]
    Signal(io::Error),
    /// The report could not be written.
    #[error("standard output can't be written: {0}; check where it goes")]
    Output(io::Error),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// How far storing came, and what reading back gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Pages that are stored.
    pub(crate) pages: u64,
    /// Pages that were to be.
    pub(crate) planned: u64,
    /// Pages that did not read back as written.
    pub(crate) mismatches: u64,
}

impl std::fmt::Display for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Stored { pages, planned, mismatches } = self;
        write!(f, "{pages} of {planned} pages, ")?;
        match mismatches {
            0 => write!(f, "all of them read back as written"),
            _ => write!(f, "{mismatches} of them not read back as written"),
        }
    }
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
    /// Prints it; the code to end with comes back.
    pub(crate) fn report(&self) -> ExitCode {
        log!("{self}");
        self.exit_code()
    }

    /// What the process ends with.
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Error::LongName { .. } | Error::NotText { .. } => USAGE,
            Error::Level(_) | Error::Geometry { .. } | Error::KernelOnly { .. } => USAGE,
            Error::Setting(zram::Error::File { .. }) => FAILED,
            Error::Setting(_) => USAGE,
            Error::InMount { .. } | Error::OneSocket { .. } => USAGE,
            Error::Size(zram::Error::Disksize { .. }) | Error::SizeOfSaved { .. } => USAGE,
            Error::Interrupted => INTERRUPTED,
            _ => FAILED,
        })
    }
}
