//! Errors of caches and their objects.

/// The reason why a cache could not be made, or an object could not be allocated or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Objects have at least one byte and fit in a slab.
    #[error("objects of {size} bytes can't be cached; 1 to {max} bytes are possible")]
    Size {
        /// The requested size in bytes.
        size: usize,
        /// The largest possible size.
        max: usize,
    },
    /// Alignments are powers of two up to a page.
    #[error("alignment {align} is no power of two, or above a page ({page} bytes)")]
    Align {
        /// The requested alignment.
        align: usize,
        /// The page size.
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
    /// The object is free already.
    #[error("the object at {address:#x} is free already")]
    DoubleFree {
        /// The address that was passed.
        address: usize,
    },
}
