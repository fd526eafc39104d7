//! How a cache begins, and why one does not.

use uzram::{Codec, Dictionary, Error};

/// How a cache begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The most bytes of memory that it may take.
    pub limit: usize,
    /// The algorithm.
    pub codec: &'static dyn Codec,
    /// Its level; `None` is its default.
    pub level: Option<i32>,
    /// The dictionary.
    pub dictionary: Training,
    /// Whether values that had to make room are handed out.
    pub wants_evicted: bool,
}

/// Where a dictionary comes from.
#[derive(Clone, Debug)]
pub enum Training {
    /// From the first values, if it pays.
    Itself,
    /// It is given.
    Given(Dictionary),
    /// There is none.
    Without,
}

/// Why there is no such cache.
#[derive(Debug)]
pub enum NoCache {
    /// The limit is too small; the least, in bytes.
    Limit(usize),
    /// The codec or the system refused.
    Failed(Error),
}

impl From<Error> for NoCache {
    fn from(error: Error) -> Self {
        NoCache::Failed(error)
    }
}

impl From<uzram::zsmalloc::Error> for NoCache {
    fn from(error: uzram::zsmalloc::Error) -> Self {
        NoCache::Failed(error.into())
    }
}
