//! What can go wrong with a device, and the errno of each.

use rustix::io::Errno;
use std::fmt;

/// Why a request failed. Data stored before is untouched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device has this size.
    #[error("a device of {bytes} bytes can't be made; 1 byte to 16 TiB - 4 KiB are possible")]
    Disksize {
        /// Bytes asked for.
        bytes: u64,
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
    #[error("slot {slot} can't be stored: {}; discard data or raise the limit", Refusal(source, *total_limit))]
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
        "slots don't keep when they were accessed; set track_access before disksize, or mark all"
    )]
    Untracked,
    /// This is a child process, and the device stayed with its parent.
    #[error(
        "the device stayed with the parent process, as its fork is 'leave'; use it there, or make one \
         here, or set fork to 'copy' before disksize"
    )]
    LeftBehind,
    /// A slot's data do not decompress to a slot: memory was damaged.
    #[error("slot {slot} can't be read: {source}")]
    Corrupt {
        /// The slot that was to be read.
        slot: u64,
        /// What the codec says.
        source: zcomp::Error,
    },
    /// The codec refused its parameters, or failed.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// The pool could not be made.
    #[error(transparent)]
    Pool(#[from] zsmalloc::Error),
}

/// What refused memory, in words.
struct Refusal<'e>(&'e zsmalloc::Error, Option<u64>);

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(limit) => {
                write!(f, "all memory would pass its limit of {limit} bytes (total_limit)")
            }
            None => self.0.fmt(f),
        }
    }
}

impl Error {
    /// The errno a block device would answer with.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Error::Codec(zcomp::Error::NoMemory { .. }) => Errno::NOMEM,
            Error::Disksize { .. } | Error::Range { .. } | Error::Codec(_) => Errno::INVAL,
            Error::OutOfMemory { .. } | Error::Pool(_) | Error::TotalLimit { .. } => Errno::NOMEM,
            Error::Untracked => Errno::INVAL,
            Error::LeftBehind => Errno::NODEV,
            Error::Corrupt { .. } => Errno::IO,
        };
        errno.raw_os_error()
    }
}
