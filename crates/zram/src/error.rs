//! The errors of a device, and the errno of each error.

use crate::policy::QUOTED_MAX;
use rustix::io::Errno;
use std::fmt;

/// The reason why a call failed. A failed request changes no data outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The size is not possible for a device.
    #[error(
        "a device can't have {bytes} bytes; 1 byte to {} are possible",
        largest(*block)
    )]
    Disksize {
        /// The requested size in bytes.
        bytes: u64,
        /// The block size in bytes.
        block: usize,
    },
    /// The block size is not possible for a device.
    #[error("blocks can't have {bytes} bytes; 4, 8, 16, 32 or 64 KiB are possible")]
    Block {
        /// The requested block size in bytes.
        bytes: usize,
    },
    /// The request ends past the end of the device.
    #[error("{len} bytes at offset {offset} go past the end of the device ({disksize} bytes)")]
    Range {
        /// The offset of the request.
        offset: u64,
        /// The length of the request in bytes.
        len: u64,
        /// The size of the device in bytes.
        disksize: u64,
    },
    /// A memory limit is reached, or the system refuses memory.
    #[error(
        "slot {slot} can't be stored: {}; discard data or raise the limit",
        refusal(source, *total_limit)
    )]
    OutOfMemory {
        /// The slot to which the request was writing.
        slot: u64,
        /// The error of the pool.
        source: zsmalloc::Error,
        /// The device's total memory limit in bytes, if that limit is reached.
        total_limit: Option<u64>,
    },
    /// An empty device takes more memory than its total limit allows.
    #[error(
        "total_limit is {limit} bytes, and an empty device takes {needed}; raise it, or use fewer \
         streams"
    )]
    TotalLimit {
        /// The limit in bytes.
        limit: u64,
        /// The minimum possible limit in bytes.
        needed: u64,
    },
    /// Access times are not tracked.
    #[error(
        "access times are not kept; set track_access to 1 before the device is made ('uzram serve \
         --set track_access=1'), or mark all slots"
    )]
    Untracked,
    /// This process is the child of a fork, and did not inherit the pool's pages.
    #[error(
        "the device was left with the parent process, as its attribute fork is 'leave'; use it \
         there, make another one here, or set fork to 'copy' before the device is made"
    )]
    LeftBehind,
    /// This process is the child of a fork, and its parent continues to use the backing store.
    #[error(
        "the backing store was left with the parent process; read written-back data there, or make \
         a device with its own store here"
    )]
    StoreLeftBehind,
    /// Another job is under way. Only one job runs at a time.
    #[error(
        "another job (recompress, writeback, save or restore) is under way; try again when it has \
         ended"
    )]
    Busy,
    /// There is no job to cancel.
    #[error("no job is under way, so there is nothing to cancel; 'uzram stat --json' shows jobs")]
    NoJob,
    /// The job was cancelled.
    #[error("the job was cancelled")]
    Cancelled,
    /// The device has no algorithm of this priority.
    #[error(
        "no algorithm has priority {priority}; give recomp_algorithm one of priority 1 to 3 before \
         the device is made ('uzram serve --set recomp_algorithm=algo=NAME')"
    )]
    NoAlgorithm {
        /// The requested priority.
        priority: usize,
    },
    /// The threshold exceeds the minimum length at which objects are stored raw.
    #[error(
        "a threshold of {bytes} bytes is too large: what compresses to {huge} or more is stored \
         raw; give less"
    )]
    Threshold {
        /// The requested threshold in bytes.
        bytes: usize,
        /// The minimum length, in bytes, at which objects are stored raw.
        huge: usize,
    },
    /// The device has no backing store.
    #[error(
        "there is no backing store; set backing_dev before the device is made ('uzram serve \
         --backing FILE')"
    )]
    NoBacking,
    /// The backing store is full.
    #[error("the backing store is full; discard what was written back, or take a larger one")]
    BackingFull,
    /// The limit of write-back does not allow further blocks.
    #[error("writeback_limit is used up; raise it, or disable writeback_limit_enable")]
    WritebackLimit,
    /// An operation of the backing store failed.
    #[error(
        "slot {slot}: the backing store failed to {verb} it: {}; {}",
        std::io::Error::from_raw_os_error(*errno),
        match *verb {
            "read" => "it can be read when the store works again",
            _ => "it stays in memory",
        }
    )]
    Backing {
        /// The requested slot, or the first slot of a request for several slots or a block.
        slot: u64,
        /// A verb for the failed operation.
        verb: &'static str,
        /// The errno of the failed operation.
        errno: i32,
    },
    /// An object's checksum does not match its bytes.
    #[error(
        "slot {slot} can't be read: its checksum differs, so its stored bytes were damaged; write \
         it again, or restore a saved device"
    )]
    Checksum {
        /// The unreadable slot, or the first slot of the unreadable block or of the request.
        slot: u64,
    },
    /// No memory is available for a buffer.
    #[error("no memory for a buffer of {bytes} bytes; free some")]
    NoBuffer {
        /// The size of the buffer in bytes.
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
        /// A verb for the failed operation.
        verb: &'static str,
        /// The path of the file.
        path: String,
        /// The errno of the failed operation.
        errno: i32,
    },
    /// The device was saved, but the file lacks some slots.
    #[error(
        "{} lacks what could not be read (slots: {slots}, the first at byte {first}); all else is \
         saved: repair the backing store and save again, or salvage what is there",
        quoted(path)
    )]
    SavedInPart {
        /// The path of the file.
        path: String,
        /// The number of slots that the file lacks.
        slots: u64,
        /// The offset in the device of the first slot that the file lacks, in bytes.
        first: u64,
    },
    /// A file is not a saved device, or is damaged.
    #[error(
        "{} can't be restored: at offset {offset}: {reason}; restore an earlier save, or salvage \
         what is intact",
        quoted(path)
    )]
    Saved {
        /// The path of the file.
        path: String,
        /// The offset of the damage in the file.
        offset: u64,
        /// A description of the damage.
        reason: String,
    },
    /// The device holds data, but only an empty device can be restored.
    #[error(
        "the device holds data, and only an empty one can be restored; discard everything, or make \
         another"
    )]
    NotEmpty,
    /// The device is smaller than the saved device.
    #[error(
        "the device has {disksize} bytes, fewer than the saved one's {needed}; make a larger one"
    )]
    TooSmall {
        /// The size of the device in bytes.
        disksize: u64,
        /// The minimum size of the device in bytes.
        needed: u64,
    },
    /// No attribute has this name.
    #[error("unknown attribute {}; 'uzram attributes' lists them", quoted(name))]
    NoAttribute {
        /// The requested name.
        name: String,
    },
    /// The attribute can't be read, or it can't be written.
    #[error("attribute {name}: it is {}-only", if *access == Access::Read {"read"} else {"write"})]
    Access {
        /// The name of the attribute.
        name: &'static str,
        /// The access that the attribute allows.
        access: Access,
    },
    /// The value is not valid for the attribute.
    #[error("attribute {name}: invalid value {}: {reason}", quoted(value))]
    Value {
        /// The name of the attribute.
        name: &'static str,
        /// The value that the caller passed.
        value: String,
        /// The kind of the error.
        why: BadValue,
        /// A description of the error, or of the expected values.
        reason: String,
    },
    /// The setting can't be changed after the device is created.
    #[error("attribute {name}: it can't be set after disksize; reset the device first")]
    Initialised {
        /// The name of the attribute.
        name: &'static str,
    },
    /// The attribute needs a device, which is not created yet.
    #[error("attribute {name}: the device is not made yet; set disksize first")]
    Uninitialised {
        /// The name of the attribute.
        name: &'static str,
    },
    /// The device can't be reset while it is open or being created.
    #[error("the device can't be reset: it is open or being made (times: {opens}); close it first")]
    Open {
        /// The number of times that the device is open.
        opens: usize,
    },
    /// The device can't be opened before it is created.
    #[error("the device can't be opened: it is not made yet; set disksize first")]
    NoDevice,
    /// A dictionary file could not be read.
    #[error(
        "dictionary {} can't be read: {}",
        quoted(path),
        std::io::Error::from_raw_os_error(*errno)
    )]
    File {
        /// The path of the file.
        path: String,
        /// The errno of the failed operation.
        errno: i32,
    },
    /// Writing an attribute's text to the caller's writer failed.
    #[error("an attribute's text could not be written out")]
    Output,
    /// A slot's data can't be decompressed, because memory was damaged.
    #[error("slot {slot} can't be read: {source}")]
    Corrupt {
        /// The slot that the request was reading.
        slot: u64,
        /// The error of the codec.
        source: zcomp::Error,
    },
    /// A block's object is invalid, because memory was damaged.
    #[error(
        "the block of slot {slot} can't be read: its object holds other slots than it should; \
         write it again"
    )]
    Damaged {
        /// The first slot of the block, or the first requested slot.
        slot: u64,
    },
    /// A job skipped damaged objects, and completed all other work.
    #[error(
        "damaged objects were skipped ({count}, the first at slot {slot}), all others are done; \
         write to them again, or restore a saved device"
    )]
    Left {
        /// The number of damaged objects.
        count: u64,
        /// The slot of the first damaged object.
        slot: u64,
    },
    /// The codec failed, or rejected its parameters.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// The pool could not be created.
    #[error(transparent)]
    Pool(#[from] zsmalloc::Error),
}

/// Returns the maximum size of a device with this block size, as a text. Slots and blocks of
/// several slots share the range of entry numbers.
fn largest(block: usize) -> &'static str {
    match block >> 12 {
        2 => "10.6 TiB",
        4 => "12.7 TiB",
        8 => "14.2 TiB",
        16 => "15 TiB",
        _ => "16 TiB - 4 KiB",
    }
}

/// Returns a description of the limit or error that caused the refusal of memory.
fn refusal(source: &zsmalloc::Error, total_limit: Option<u64>) -> String {
    match total_limit {
        Some(limit) => format!("the limit of all memory, {limit} bytes (total_limit), is reached"),
        None => source.to_string(),
    }
}

/// The accesses that an attribute allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The attribute can only be read.
    Read,
    /// The attribute can only be written.
    Write,
    /// The attribute can be read and written.
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

/// The kinds of invalid values for which the kernel returns different errnos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadValue {
    /// EINVAL: any other invalid value.
    Invalid,
    /// ERANGE: the number does not fit.
    Range,
    /// E2BIG: the name is too long.
    TooLong,
}

/// Returns `text` in the form for a message: quoted, escaped to one line, and shortened.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(QUOTED_MAX).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    format!("'{}{more}'", shown.escape_debug())
}

/// Returns a remedy for an error of a path.
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
    /// Returns the error for a failed operation of the backing store.
    pub(crate) fn backing(verb: &'static str, slot: u32, error: &std::io::Error) -> Self {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO).raw_os_error();
        Error::Backing { slot: slot.into(), verb, errno }
    }

    /// Returns the error for a failed operation on a file.
    pub(crate) fn path(verb: &'static str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let errno = match error.kind() {
            std::io::ErrorKind::WouldBlock => Errno::BUSY,
            // Rust's standard library rejects a path with a zero byte before any system call.
            std::io::ErrorKind::InvalidInput => Errno::INVAL,
            _ => Errno::from_io_error(error).unwrap_or(Errno::IO),
        };
        let path = path.to_string_lossy().into_owned();
        Error::Path { verb, path, errno: errno.raw_os_error() }
    }

    /// Returns the error with its slot raised to at least `first`. The error of a block contains
    /// the block's first slot, which may precede the slot at which the request stopped.
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

    /// Returns true if the error reports damaged data. A read of damaged data fails until the data
    /// are written again.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Error::Checksum { .. } | Error::Corrupt { .. } | Error::Damaged { .. })
    }

    /// Returns the errno that a block device would return.
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
