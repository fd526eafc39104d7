//! What can go wrong with a device, and the errno of each.

use rustix::io::Errno;

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
    #[error("slot {slot} can't be stored: {source}; discard data or raise the limit")]
    OutOfMemory {
        /// The slot that was to be written.
        slot: u64,
        /// What refused.
        source: zsmalloc::Error,
    },
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

impl Error {
    /// The errno a block device would answer with.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Error::Codec(zcomp::Error::NoMemory { .. }) => Errno::NOMEM,
            Error::Disksize { .. } | Error::Range { .. } | Error::Codec(_) => Errno::INVAL,
            Error::OutOfMemory { .. } | Error::Pool(_) => Errno::NOMEM,
            Error::Corrupt { .. } => Errno::IO,
        };
        errno.raw_os_error()
    }
}
