//! The options of a new cache.

use zcomp::{Codec, Dictionary, by_name};

/// The options of a new cache.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of bytes of memory that the cache can use in total: compressed values,
    /// keys, tables, the dictionary, and the buffers for compression.
    pub limit: usize,
    /// The compression algorithm; zstd by default.
    pub algorithm: &'static dyn Codec,
    /// The level of the algorithm; `None` selects the default level.
    pub level: Option<i32>,
    /// The source of the dictionary; by default, the cache trains one.
    pub dictionary: DictionarySource,
}

impl Options {
    /// Returns the default options of a cache that can use at most `limit` bytes of memory.
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
    /// The cache trains a dictionary with its first small values, and uses the dictionary if that
    /// saves memory. During the training, up to 40 MB of memory are used. If the limit is 64 MiB or
    /// more, the cache stays within the limit during the training.
    #[default]
    Trained,
    /// The caller provides the dictionary.
    Given(Dictionary),
    /// The cache uses no dictionary.
    None,
}
