//! What can go wrong with objects of a cache.

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
}
