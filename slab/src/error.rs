//! The errors of object caches, and the errno of each error.

use rustix::io::Errno;

/// Why a cache could not be created, or an object could not be allocated or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The size of objects is 0, or too large for a slab.
    #[error("objects of {size} bytes can't be cached; 1 to {max} bytes are possible")]
    Size {
        /// The number of bytes requested.
        size: usize,
        /// The largest possible size.
        max: usize,
    },
    /// The alignment is not a power of two, or is larger than a page.
    #[error("alignment {align} is no power of two, or above a page ({page} bytes)")]
    Align {
        /// The alignment requested.
        align: usize,
        /// The page size.
        page: usize,
    },
    /// No layout has the requested name.
    #[error("no such layout; there are native, stack, stack-u32 and linked-bufctl")]
    UnknownLayout,
    /// The tunables are out of range. A thread is allowed to keep at most 2^20 free objects.
    /// `batchcount` is at least 1 and at most `limit`.
    #[error(
        "limit {limit} with batchcount {batchcount}: 1 <= batchcount <= limit <= 2^20 is possible, \
         or 0 and 0"
    )]
    Tunables {
        /// The maximum number of free objects that a thread keeps.
        limit: u32,
        /// The minimum number of free objects that a thread gives up at a time.
        batchcount: u32,
    },
    /// No pages are available for another slab.
    #[error(transparent)]
    Pages(#[from] page::Error),
    /// No object of this cache begins at the address.
    #[error("{address:#x} is not the start of an object of this cache")]
    Foreign {
        /// The address that the caller passed.
        address: usize,
    },
    /// The object is already free.
    #[error("the object at {address:#x} is free already")]
    DoubleFree {
        /// The address that the caller passed.
        address: usize,
    },
    /// A byte outside the object was written to. The object is never allocated again.
    #[error(
        "the object at {address:#x} was written to beyond its end or before its start, at {at:#x}"
    )]
    RedZone {
        /// The address of the object.
        address: usize,
        /// The address of the first byte that was written to.
        at: usize,
    },
    /// A free object was written to. The object is never allocated again.
    #[error("the object at {address:#x} was written to at {at:#x} after it was freed")]
    UsedAfterFree {
        /// The address of the object.
        address: usize,
        /// The address of the first byte that was written to.
        at: usize,
    },
}

impl Error {
    /// Returns the errno that a C function would return.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Error::Pages(page::Error::ExtentLength { .. }) => Errno::INVAL,
            Error::Pages(_) => Errno::NOMEM,
            Error::RedZone { .. } | Error::UsedAfterFree { .. } => Errno::IO,
            Error::Size { .. } | Error::Align { .. } | Error::UnknownLayout => Errno::INVAL,
            Error::Tunables { .. } | Error::Foreign { .. } | Error::DoubleFree { .. } => {
                Errno::INVAL
            }
        };
        errno.raw_os_error()
    }
}
