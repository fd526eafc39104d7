//! What can go wrong with a region.

use rustix::io::Errno;

/// Why there is no region, or why a range of it could not be what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No region has so many bytes.
    #[error("a region can't have {bytes} bytes; it has at least one block of {block}")]
    Size {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes of a block.
        block: usize,
    },
    /// The limit is below what an empty region takes.
    #[error("a limit of {limit} bytes is too low: {needed} is what these options need; raise it")]
    Limit {
        /// The limit asked for.
        limit: u64,
        /// The least that will do.
        needed: u64,
    },
    /// There are no such blocks on this system.
    #[error("blocks of order {order} are not possible here; take an order from {min} to {max}")]
    Order {
        /// The order asked for.
        order: u32,
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// There are too many regions.
    #[error("there are {max} regions already; drop one, or make one larger region")]
    Regions {
        /// The most that there can be.
        max: usize,
    },
    /// The range is not within the region.
    #[error("bytes {start} to {end} are not within a region of {bytes} bytes")]
    Range {
        /// First byte.
        start: usize,
        /// Behind the last byte.
        end: usize,
        /// Bytes of the region.
        bytes: usize,
    },
    /// A block of the range is locked.
    #[error("byte {at} is locked; drop the lock first")]
    Locked {
        /// First byte of the block.
        at: usize,
    },
    /// The program closes its descriptors of `/proc/self/mem`, or may not have one.
    #[error(
        "/proc/self/mem can't be used ({}); without it nothing can be brought back",
        reason(*errno)
    )]
    ProcessMemory {
        /// Why not.
        errno: i32,
    },
    /// The system has no memory, or no mapping, for it.
    #[error("the system refused {what}: {}", reason(*errno))]
    System {
        /// What was asked of it.
        what: &'static str,
        /// Why it refused.
        errno: i32,
    },
    /// The device could not be made.
    #[error("{0}")]
    Device(#[from] zram::Error),
}

fn reason(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Error::System { what, errno: errno.raw_os_error() }
    }
}
