//! The parameters of a new cache, and the errors of its creation.

use uzram::{Codec, Dictionary, Error};

/// The parameters of a new cache.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The maximum bytes of memory that it may use.
    pub limit: usize,
    /// The algorithm.
    pub codec: &'static dyn Codec,
    /// Its level; `None` selects its default.
    pub level: Option<i32>,
    /// The dictionary.
    pub dictionary: Training,
    /// Whether evicted values are returned to the caller.
    pub wants_evicted: bool,
}

/// The source of the dictionary.
#[derive(Clone, Debug)]
pub enum Training {
    /// Trained from the first values, if it saves memory.
    Itself,
    /// Given by the caller.
    Given(Dictionary),
    /// No dictionary.
    Without,
}

/// Why a cache could not be created.
#[derive(Debug)]
pub enum NoCache {
    /// The limit is too small; contains the minimum in bytes.
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
