//! What can go wrong with objects.

use crate::{GeometryError, meta};

/// Why an object could not be stored, read or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Objects have 1 byte up to the largest class.
    #[error("an object of {size} bytes can't be stored; 1 to {max} bytes are possible")]
    Size {
        /// Bytes asked for.
        size: usize,
        /// The largest object there is.
        max: usize,
    },
    /// The size classes asked for can't be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The pool's pages are used up, or the system gives no more.
    #[error(transparent)]
    Pages(#[from] page::Error),
    /// The memory that manages the objects is used up.
    #[error(transparent)]
    Meta(#[from] meta::Error),
    /// The entry's number is outside its table.
    #[error("entry {index} is outside the table of {len} entries")]
    Index {
        /// Number asked for.
        index: u64,
        /// Numbers there are.
        len: u64,
    },
    /// More bytes than the object has.
    #[error("{len} bytes can't be written to an object of {object} bytes")]
    Length {
        /// Bytes that were to be written.
        len: usize,
        /// Bytes of the object.
        object: usize,
    },
    /// This is a child, and the pool's pages stayed with the parent, as was asked for
    /// (`in_children`).
    #[error(
        "the pool's pages were left with the parent process; make another pool in the child, or \
         set in_children when the pool is made"
    )]
    LeftBehind,
    /// The handle was freed already, or never given out by this pool.
    #[error("handle {raw:#x} is stale, or of another pool")]
    Handle {
        /// The handle's raw form.
        raw: u64,
    },
}

impl Error {
    /// Returns whether it is the pool's limit that refused.
    pub fn is_limit(&self) -> bool {
        matches!(self, Error::Pages(page::Error::Limit { .. }))
    }

    /// Returns whether it is the pool's [`Supply`](page::Supply) that refused.
    pub fn is_refused(&self) -> bool {
        matches!(
            self,
            Error::Pages(page::Error::Refused { .. })
                | Error::Meta(meta::Error::Pages(page::Error::Refused { .. }))
        )
    }
}
