//! Errors of caches and their objects.

/// The reason why a cache could not be created, or an object could not be allocated or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The size of objects is 0, or an object does not fit in a slab.
    #[error("objects of {size} bytes can't be cached; 1 to {max} bytes are possible")]
    Size {
        /// The requested size in bytes.
        size: usize,
        /// The maximum size in bytes.
        max: usize,
    },
    /// The alignment is not a power of two, or is above the page size.
    #[error("alignment {align} is no power of two, or above a page ({page} bytes)")]
    Align {
        /// The requested alignment in bytes.
        align: usize,
        /// The page size in bytes.
        page: usize,
    },
    /// No pages are available for another slab.
    #[error(transparent)]
    Pages(#[from] page::Error),
    /// The address is not that of an object of this cache.
    #[error("{address:#x} is not the start of an object of this cache")]
    Foreign {
        /// The address that was passed.
        address: usize,
    },
    /// The object is already free.
    #[error("the object at {address:#x} is free already")]
    DoubleFree {
        /// The address that was passed.
        address: usize,
    },
}
