//! The errors of this crate.

/// The reason why pages, or the tables that manage pages, could not be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The budget has no room for the pages.
    #[error("the limit of {limit} pages is reached ({used} in use, {wanted} more wanted)")]
    Limit {
        /// The maximum number of pages in use.
        limit: usize,
        /// The number of pages in use.
        used: usize,
        /// The number of pages requested.
        wanted: usize,
    },
    /// A [`Supply`](crate::Supply) refused to commit the pages, or to map or allocate the memory.
    #[error("{pages} more pages were refused by another limit than that of pages")]
    Refused {
        /// The number of pages requested.
        pages: usize,
    },
    /// The system refused address space or memory because of `ulimit -v`, overcommit or the number
    /// of mappings.
    #[error(
        "the system refused {bytes} bytes of address space (ulimit -v, overcommit or max_map_count)"
    )]
    Mapping {
        /// The number of bytes that the last refused request asked for.
        bytes: usize,
    },
    /// No memory was available to register the fork handlers. Without the handlers, a child can
    /// find locks that are never released.
    #[error("handlers of forks can't be registered: out of memory (pthread_atfork)")]
    Forks,
    /// All offsets of the space, which are below 4 TiB, are in use.
    #[error("all 4 TiB of the space are in use")]
    Exhausted,
    /// The extent is too long or empty. An extent has 1 to
    /// [`EXTENT_PAGES_MAX`](crate::EXTENT_PAGES_MAX) pages.
    #[error("an extent of {pages} pages was asked for; 1 to 256 are possible")]
    ExtentLength {
        /// The number of pages requested.
        pages: u32,
    },
}
