//! Errors of the pool.

use crate::{GeometryError, meta};

/// The reason why an object could not be stored, read or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object's size is 0, or above the size of the largest class.
    #[error("an object of {size} bytes can't be stored; 1 to {max} bytes are possible")]
    Size {
        /// The requested size in bytes.
        size: usize,
        /// The size of the largest object, in bytes.
        max: usize,
    },
    /// The requested size classes are impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The pool's limit is reached, or the system refuses more pages.
    #[error(transparent)]
    Pages(#[from] page::Error),
    /// No memory is left for the pool's metadata.
    #[error(transparent)]
    Meta(#[from] meta::Error),
    /// The entry's number is not below the number of entries in the table.
    #[error("entry {index} is outside the table of {len} entries")]
    Index {
        /// The requested number.
        index: u64,
        /// The number of entries in the table.
        len: u64,
    },
    /// The write is longer than the object.
    #[error("{len} bytes can't be written to an object of {object} bytes")]
    Length {
        /// The number of bytes to be written.
        len: usize,
        /// The number of bytes of the object.
        object: usize,
    },
    /// This process is a child of fork, and the pool's pages stayed with the parent. The pool's
    /// configuration does not set `in_children`.
    #[error(
        "the pool's pages were left with the parent process; make another pool in the child, or \
         set in_children when the pool is made"
    )]
    LeftBehind,
    /// The handle was freed already, or belongs to another pool.
    #[error("handle {raw:#x} is stale, or of another pool")]
    Handle {
        /// The handle's raw form.
        raw: u64,
    },
}

impl Error {
    /// Returns whether the pool's limit caused the error.
    pub fn is_limit(&self) -> bool {
        matches!(self, Error::Pages(page::Error::Limit { .. }))
    }

    /// Returns whether the pool's [`Supply`](page::Supply) caused the error.
    pub fn is_refused(&self) -> bool {
        matches!(
            self,
            Error::Pages(page::Error::Refused { .. })
                | Error::Meta(meta::Error::Pages(page::Error::Refused { .. }))
        )
    }
}
