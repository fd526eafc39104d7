//! What can go wrong with pages.

/// Why pages could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The budget has no room for the pages asked for.
    #[error("the limit of {limit} pages is reached ({used} in use, {wanted} more wanted)")]
    Limit {
        /// Pages the budget allows.
        limit: usize,
        /// Pages in use.
        used: usize,
        /// Pages asked for.
        wanted: usize,
    },
    /// A [`Supply`](crate::Supply) refused to have them committed.
    #[error("{pages} more pages were refused by another limit than that of pages")]
    Refused {
        /// Pages asked for.
        pages: usize,
    },
    /// The system refused address space (`ulimit -v`, overcommit, number of mappings).
    #[error(
        "the system refused {bytes} bytes of address space (ulimit -v, overcommit or max_map_count)"
    )]
    Mapping {
        /// Bytes asked for in the last attempt.
        bytes: usize,
    },
    /// There was no memory to have the handlers of forks called, and what a child finds would be
    /// anything.
    #[error("handlers of forks can't be registered: out of memory (pthread_atfork)")]
    Forks,
    /// The space's own range of offsets, 4 TiB, is used up.
    #[error("all 4 TiB of the space are in use")]
    Exhausted,
    /// An extent has 1 to [`EXTENT_PAGES_MAX`](crate::EXTENT_PAGES_MAX) pages.
    #[error("an extent of {pages} pages was asked for; 1 to 256 are possible")]
    ExtentLength {
        /// Pages asked for.
        pages: u32,
    },
}
