//! The reasons why a call of a cache failed.

/// The reason why a call of a cache failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The limit leaves no room for values.
    #[error("the limit is too small; such a cache takes {least} bytes or more")]
    LimitTooSmall {
        /// The minimum limit in bytes.
        least: usize,
    },
    /// The value does not fit within the limit, even if all other values are evicted.
    #[error(
        "a value of {bytes} bytes, with its key, finds no room in a cache of {limit}; raise the \
         limit, or store it in parts"
    )]
    NoRoom {
        /// The length of the value in bytes.
        bytes: usize,
        /// The limit of the cache in bytes.
        limit: usize,
    },
    /// The system refused memory for a copy of the value.
    #[error("the system has no memory for a copy of a value: {bytes}")]
    NoMemory {
        /// The length of the value in bytes.
        bytes: usize,
    },
    /// An error of the pool that holds the values.
    #[error(transparent)]
    Pool(#[from] zsmalloc::Error),
    /// An error of the codec.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
}
