//! What can go wrong with a device, and the errno of each.

use rustix::io::Errno;
use std::fmt;

/// Why a request failed. Data stored before is untouched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device has this size.
    #[error(
        "a device can't have {bytes} bytes; 1 byte to {} are possible",
        largest(*block)
    )]
    Disksize {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of its blocks.
        block: usize,
    },
    /// No device has such blocks.
    #[error("blocks can't have {bytes} bytes; 4, 8, 16, 32 or 64 KiB are possible")]
    Block {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The request goes past the end of the device.
    #[error("{len} bytes at offset {offset} go past the end of the device ({disksize} bytes)")]
    Range {
        /// First byte of the request.
        offset: u64,
        /// Bytes of the request.
        len: u64,
        /// Bytes of the device.
        disksize: u64,
    },
    /// The memory limit is reached, or the system has no more.
    #[error("slot {slot} can't be stored: {}; discard data or raise the limit", refusal(source, *total_limit))]
    OutOfMemory {
        /// The slot that was to be written.
        slot: u64,
        /// What refused.
        source: zsmalloc::Error,
        /// The limit of all memory in bytes, if it is that which refused.
        total_limit: Option<u64>,
    },
    /// Not even an empty device fits the limit of all memory.
    #[error(
        "total_limit is {limit} bytes, and an empty device takes {needed}; raise it, or use fewer streams"
    )]
    TotalLimit {
        /// The limit.
        limit: u64,
        /// The least that will do.
        needed: u64,
    },
    /// Slots don't keep when they were accessed.
    #[error(
        "access times are not kept; set track_access to 1 before the device is made ('uzram serve \
         --set track_access=1'), or mark all slots"
    )]
    Untracked,
    /// This is a child process, and the device stayed with its parent.
    #[error(
        "the device was left with the parent process, as its attribute fork is 'leave'; use it \
         there, make another one here, or set fork to 'copy' before the device is made"
    )]
    LeftBehind,
    /// This is a child process, and the backing store stayed with its parent.
    #[error(
        "the backing store was left with the parent process; read written-back data there, or make \
         a device with its own store here"
    )]
    StoreLeftBehind,
    /// Another job on cold data is under way: there is one at a time.
    #[error(
        "another job (recompress, writeback, save or restore) is under way; try again when it has \
         ended"
    )]
    Busy,
    /// There is nothing to be cancelled.
    #[error("no job is under way, so there is nothing to cancel; 'uzram stat --json' shows jobs")]
    NoJob,
    /// The job was told to go no further.
    #[error("the job was cancelled")]
    Cancelled,
    /// There is no algorithm of this priority.
    #[error(
        "no algorithm has priority {priority}; give recomp_algorithm one of priority 1 to 3 before \
         the device is made ('uzram serve --set recomp_algorithm=algo=NAME')"
    )]
    NoAlgorithm {
        /// The priority asked for.
        priority: usize,
    },
    /// What is larger is stored raw.
    #[error(
        "a threshold of {bytes} bytes is too large: what compresses to {huge} or more is stored \
         raw; give less"
    )]
    Threshold {
        /// Bytes asked for.
        bytes: usize,
        /// The least that is too much.
        huge: usize,
    },
    /// There is nothing to write back to.
    #[error(
        "there is no backing store; set backing_dev before the device is made ('uzram serve \
         --backing FILE')"
    )]
    NoBacking,
    /// The backing store has no room left.
    #[error("the backing store is full; discard what was written back, or take a larger one")]
    BackingFull,
    /// No more may be written back.
    #[error("writeback_limit is used up; raise it, or disable writeback_limit_enable")]
    WritebackLimit,
    /// A fault of the backing store.
    #[error(
        "slot {slot}: the backing store failed to {verb} it: {}; {}",
        std::io::Error::from_raw_os_error(*errno),
        if *verb == "read" { "it can be read when the store works again" } else { "it stays in memory" }
    )]
    Backing {
        /// The slot; of many, or of a block, the first one that was asked for.
        slot: u64,
        /// What it was to do.
        verb: &'static str,
        /// Why it did not.
        errno: i32,
    },
    /// An object is not what was stored.
    #[error(
        "slot {slot} can't be read: its checksum differs, so its stored bytes were damaged; write \
         it again, or restore a saved device"
    )]
    Checksum {
        /// The slot; of a block, the first one, or the first one that was asked for.
        slot: u64,
    },
    /// There is no memory to read something into.
    #[error("no memory for a buffer of {bytes} bytes; free some")]
    NoBuffer {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A file could not be read or written.
    #[error(
        "{verb} {}: {}; {}",
        quoted(path),
        std::io::Error::from_raw_os_error(*errno),
        path_remedy(*errno)
    )]
    Path {
        /// What was to be done with it.
        verb: &'static str,
        /// Where it is.
        path: String,
        /// Why it was not.
        errno: i32,
    },
    /// A file was saved, and lacks something.
    #[error(
        "{} lacks what could not be read (slots: {slots}, the first at byte {first}); all else is \
         saved: repair the backing store and save again, or salvage what is there",
        quoted(path)
    )]
    SavedInPart {
        /// Where it is.
        path: String,
        /// How many slots.
        slots: u64,
        /// Where the first of them begins.
        first: u64,
    },
    /// A saved file is none, or damaged.
    #[error(
        "{} can't be restored: at offset {offset}: {reason}; restore an earlier save, or salvage \
         what is intact",
        quoted(path)
    )]
    Saved {
        /// Where it is.
        path: String,
        /// Where in the file something is wrong.
        offset: u64,
        /// What is.
        reason: String,
    },
    /// Only an empty device is restored.
    #[error(
        "the device holds data, and only an empty one can be restored; discard everything, or make \
         another"
    )]
    NotEmpty,
    /// A device is too small for what was saved.
    #[error(
        "the device has {disksize} bytes, fewer than the saved one's {needed}; make a larger one"
    )]
    TooSmall {
        /// Bytes it has.
        disksize: u64,
        /// Bytes it must have.
        needed: u64,
    },
    /// There is no such attribute.
    #[error("unknown attribute {}; 'uzram attributes' lists them", quoted(name))]
    NoAttribute {
        /// The name asked for.
        name: String,
    },
    /// The attribute can't be read, or not be written.
    #[error("attribute {name}: it is {}-only", if *access == Access::Read {"read"} else {"write"})]
    Access {
        /// The attribute.
        name: &'static str,
        /// What can be done with it.
        access: Access,
    },
    /// The attribute can't have this value.
    #[error("attribute {name}: invalid value {}: {reason}", quoted(value))]
    Value {
        /// The attribute.
        name: &'static str,
        /// The value that was to be written.
        value: String,
        /// How it is wrong.
        why: BadValue,
        /// What is wrong with it, or was expected.
        reason: String,
    },
    /// A setting that only a device which is not made yet can be given.
    #[error("attribute {name}: it can't be set after disksize; reset the device first")]
    Initialised {
        /// The attribute.
        name: &'static str,
    },
    /// An attribute that only a device which is made has.
    #[error("attribute {name}: the device is not made yet; set disksize first")]
    Uninitialised {
        /// The attribute.
        name: &'static str,
    },
    /// The device can't be reset.
    #[error("the device can't be reset: it is open or being made (times: {opens}); close it first")]
    Open {
        /// How often it is open.
        opens: usize,
    },
    /// There is nothing to be opened.
    #[error("the device can't be opened: it is not made yet; set disksize first")]
    NoDevice,
    /// The file of a dictionary could not be read.
    #[error("dictionary {} can't be read: {}", quoted(path), std::io::Error::from_raw_os_error(*errno))]
    File {
        /// Where it was to be.
        path: String,
        /// Why not.
        errno: i32,
    },
    /// The output that an attribute was written to failed.
    #[error("an attribute's text could not be written out")]
    Output,
    /// A slot's data do not decompress to a slot: memory was damaged.
    #[error("slot {slot} can't be read: {source}")]
    Corrupt {
        /// The slot that was to be read.
        slot: u64,
        /// What the codec says.
        source: zcomp::Error,
    },
    /// A block's object is not one: memory was damaged.
    #[error(
        "the block of slot {slot} can't be read: its object holds other slots than it should; \
         write it again"
    )]
    Damaged {
        /// The first slot of the block, or the first one that was asked for.
        slot: u64,
    },
    /// A job came upon data that are damaged, and did all else.
    #[error(
        "damaged objects were skipped ({count}, the first at slot {slot}), all others are done; \
         write to them again, or restore a saved device"
    )]
    Left {
        /// How many.
        count: u64,
        /// The first one.
        slot: u64,
    },
    /// The codec refused its parameters, or failed.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// The pool could not be made.
    #[error(transparent)]
    Pool(#[from] zsmalloc::Error),
}

/// Returns the largest device: blocks of several slots are numbered, too.
fn largest(block: usize) -> &'static str {
    match block >> 12 {
        2 => "10.6 TiB",
        4 => "12.7 TiB",
        8 => "14.2 TiB",
        16 => "15 TiB",
        _ => "16 TiB - 4 KiB",
    }
}

/// What refused memory, in words.
fn refusal(source: &zsmalloc::Error, total_limit: Option<u64>) -> String {
    match total_limit {
        Some(limit) => format!("the limit of all memory, {limit} bytes (total_limit), is reached"),
        None => source.to_string(),
    }
}

/// What can be done with an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is only read.
    Read,
    /// It is only written.
    Write,
    /// Both.
    ReadWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::ReadWrite => "read, write",
        })
    }
}

/// How a value is wrong, as the kernel's errno tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadValue {
    /// EINVAL
    Invalid,
    /// ERANGE: a number that does not fit.
    Range,
    /// E2BIG: a name that is too long.
    TooLong,
}

/// A value as it may be printed: on one line, not too long.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let shown: String = text.chars().take(LONGEST).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    format!("'{}{more}'", shown.escape_debug())
}

/// Returns what helps against what the system says of a path.
fn path_remedy(errno: i32) -> &'static str {
    match Errno::from_raw_os_error(errno) {
        Errno::NOENT | Errno::ISDIR | Errno::NOTDIR | Errno::INVAL => {
            "name a regular file in an existing directory"
        }
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => "make room, or name another file",
        Errno::EXIST => "a file that appeared there is not replaced; name another file",
        Errno::BUSY => "wait until it is no longer in use",
        Errno::PERM => "remove '.NAME.saving' beside it, which another user put there",
        Errno::LOOP => "its symbolic links lead in a circle; remove one, or name another file",
        Errno::XDEV => "a file system is mounted on it; unmount that, or name another file",
        Errno::ACCESS | Errno::ROFS => {
            "check its permissions and attributes (lsattr), or name another file"
        }
        _ => "check it, or name another file",
    }
}

impl Error {
    /// Returns a fault of the backing store.
    pub(crate) fn backing(verb: &'static str, slot: u32, error: &std::io::Error) -> Self {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO).raw_os_error();
        Error::Backing { slot: slot.into(), verb, errno }
    }

    /// What went wrong with a file.
    pub(crate) fn path(verb: &'static str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let errno = match error.kind() {
            std::io::ErrorKind::WouldBlock => Errno::BUSY,
            // Of a name with a zero byte the system is not asked.
            std::io::ErrorKind::InvalidInput => Errno::INVAL,
            _ => Errno::from_io_error(error).unwrap_or(Errno::IO),
        };
        let path = path.to_string_lossy().into_owned();
        Error::Path { verb, path, errno: errno.raw_os_error() }
    }

    /// Returns the same error of a request that stopped at slot `first`: of a block's error, which
    /// names the first slot of the block, the request may have begun behind that, or done it.
    pub(crate) fn not_before(mut self, first: u64) -> Self {
        match &mut self {
            Error::OutOfMemory { slot, .. }
            | Error::Backing { slot, .. }
            | Error::Checksum { slot }
            | Error::Corrupt { slot, .. }
            | Error::Damaged { slot } => *slot = first.max(*slot),
            _ => {}
        }
        self
    }

    /// Returns whether data were found damaged where they lie, which nothing but writing them anew
    /// helps.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Error::Checksum { .. } | Error::Corrupt { .. } | Error::Damaged { .. })
    }

    /// Returns the errno that a block device would answer with.
    pub fn errno(&self) -> i32 {
        use Error::*;
        let errno = match self {
            Path { errno, .. } | File { errno, .. } => return *errno,
            Backing { errno, .. } if *errno == Errno::NOSPC.raw_os_error() => Errno::NOSPC,
            Codec(zcomp::Error::NoMemory { .. }) | NoBuffer { .. } => Errno::NOMEM,
            Pool(zsmalloc::Error::Geometry(_)) | Codec(_) => Errno::INVAL,
            OutOfMemory { .. } | Pool(_) | TotalLimit { .. } => Errno::NOMEM,
            Value { why: BadValue::Range, .. } => Errno::RANGE,
            Value { why: BadValue::TooLong, .. } => Errno::TOOBIG,
            Value { .. } | Uninitialised { .. } | Untracked => Errno::INVAL,
            Disksize { .. } | Block { .. } | Range { .. } => Errno::INVAL,
            NoAlgorithm { .. } | Threshold { .. } => Errno::INVAL,
            NoAttribute { .. } => Errno::NOENT,
            Access { .. } => Errno::ACCESS,
            Initialised { .. } | Open { .. } => Errno::BUSY,
            NoBacking | NoDevice | LeftBehind | StoreLeftBehind => Errno::NODEV,
            BackingFull | TooSmall { .. } => Errno::NOSPC,
            Busy => Errno::AGAIN,
            NoJob => Errno::SRCH,
            Cancelled => Errno::CANCELED,
            Saved { .. } => Errno::BADMSG,
            NotEmpty => Errno::NOTEMPTY,
            WritebackLimit | Output | SavedInPart { .. } | Left { .. } => Errno::IO,
            Backing { .. } | Checksum { .. } | Corrupt { .. } | Damaged { .. } => Errno::IO,
        };
        errno.raw_os_error()
    }
}
