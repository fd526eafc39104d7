//! The options of a new cache.

use zcomp::{Codec, Dictionary, by_name};

/// The options of a new cache.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of bytes of memory that the cache may use in total: compressed values,
    /// keys, tables, the dictionary, and the buffers for compression.
    pub limit: usize,
    /// The algorithm; zstd by default.
    pub algorithm: &'static dyn Codec,
    /// The level of the algorithm; `None` selects the default level.
    pub level: Option<i32>,
    /// The source of the dictionary; trained by default.
    pub dictionary: DictionarySource,
}

impl Options {
    /// Returns the default options of a cache that may use at most `limit` bytes of memory.
    pub fn new(limit: usize) -> Self {
        let algorithm = match by_name("zstd") {
            Ok(algorithm) => algorithm,
            Err(_) => unreachable!("zstd is always built in"),
        };
        Options { limit, algorithm, level: None, dictionary: DictionarySource::Trained }
    }
}

/// The source of the dictionary with which values are compressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DictionarySource {
    /// The cache trains a dictionary from its first values, and uses it if it saves memory. The
    /// training uses up to 40 MB for a moment, within the limit if the limit is 64 MiB or more.
    #[default]
    Trained,
    /// The caller provides the dictionary.
    Given(Dictionary),
    /// No dictionary.
    None,
}
