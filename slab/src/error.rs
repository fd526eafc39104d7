//! What can go wrong with objects, and the errno of each.

use rustix::io::Errno;

/// Why a cache could not be made, or an object not be had or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Objects have at least one byte and fit in a slab.
    #[error("objects of {size} bytes can't be cached; 1 to {max} bytes are possible")]
    Size {
        /// Bytes asked for.
        size: usize,
        /// The largest size there is.
        max: usize,
    },
    /// Alignments are powers of two up to a page.
    #[error("alignment {align} is no power of two, or above a page ({page} bytes)")]
    Align {
        /// Alignment asked for.
        align: usize,
        /// The page size.
        page: usize,
    },
    /// There is no layout of that name.
    #[error("no such layout; there are native, stack, stack-u32 and linked-bufctl")]
    UnknownLayout,
    /// A thread keeps at most 2^20 free objects, and gives at least one and at most all of them
    /// back at a time.
    #[error(
        "limit {limit} with batchcount {batchcount}: 1 <= batchcount <= limit <= 2^20 is possible, \
         or 0 and 0"
    )]
    Tunables {
        /// Free objects that a thread may keep.
        limit: u32,
        /// Objects moved at a time.
        batchcount: u32,
    },
    /// No pages for another slab.
    #[error(transparent)]
    Pages(#[from] page::Error),
    /// The address is of no object of this cache.
    #[error("{address:#x} is not the start of an object of this cache")]
    Foreign {
        /// The address given.
        address: usize,
    },
    /// The object is free already.
    #[error("the object at {address:#x} is free already")]
    DoubleFree {
        /// The address given.
        address: usize,
    },
    /// A byte outside the object was written to. The object is not given out again.
    #[error(
        "the object at {address:#x} was written to beyond its end or before its start, at {at:#x}"
    )]
    RedZone {
        /// The object.
        address: usize,
        /// The first byte that was written to.
        at: usize,
    },
    /// A free object was written to. It is not given out again.
    #[error("the object at {address:#x} was written to at {at:#x} after it was freed")]
    UsedAfterFree {
        /// The object.
        address: usize,
        /// The first byte that was written to.
        at: usize,
    },
}

impl Error {
    /// Returns the errno a C function would answer with.
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
