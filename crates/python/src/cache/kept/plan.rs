//! The parameters of a new cache, and the errors of its creation.

use uzram::{Codec, Dictionary, Error};

/// The parameters of a new cache.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The maximum number of bytes of memory that the cache may use.
    pub limit: usize,
    /// The algorithm.
    pub codec: &'static dyn Codec,
    /// The level of the algorithm; `None` selects the default level.
    pub level: Option<i32>,
    /// The source of the dictionary, if any.
    pub dictionary: Training,
    /// Whether evicted values are returned to the caller.
    pub wants_evicted: bool,
}

/// The source of the dictionary.
#[derive(Clone, Debug)]
pub enum Training {
    /// The cache trains a dictionary from its first values, and uses it if it saves memory.
    Itself,
    /// The caller provides the dictionary.
    Given(Dictionary),
    /// No dictionary.
    Without,
}

/// The reason why a cache could not be created.
#[derive(Debug)]
pub enum NoCache {
    /// The limit is too small; contains the minimum in bytes.
    Limit(usize),
    /// The codec failed, or the system refused memory.
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
