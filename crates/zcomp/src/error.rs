//! The errors of codecs.

use crate::policy::{DICTIONARY_BYTES_MAX, QUOTED_MAX};
use std::ops::RangeInclusive;

use crate::names::ALL;

/// The reason why a codec is not available, or why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No algorithm has this name.
    #[error("unknown algorithm '{}'; available are: {}", shown(name), ALL.join(", "))]
    UnknownAlgorithm {
        /// The requested name.
        name: String,
    },
    /// The kernel supports an algorithm of this name, but this library does not.
    #[error("algorithm '{name}' is not supported; available are: {}", ALL.join(", "))]
    Unsupported {
        /// The requested name.
        name: &'static str,
    },
    /// The level is outside the codec's range.
    #[error("level {level} is out of range for {codec}: {} to {}", range.start(), range.end())]
    Level {
        /// The codec's name.
        codec: &'static str,
        /// The requested level.
        level: i32,
        /// The codec's range of levels.
        range: RangeInclusive<i32>,
    },
    /// Streams can't have blocks of this size.
    #[error("a block of {block} bytes can't be compressed; 1 to {max} bytes are possible")]
    Block {
        /// The requested size in bytes.
        block: usize,
        /// The maximum size in bytes.
        max: usize,
    },
    /// The dictionary is empty.
    #[error("an empty dictionary can't be used; give one with content, or none")]
    EmptyDictionary,
    /// The dictionary is too large.
    #[error("a dictionary has {DICTIONARY_BYTES_MAX} bytes at most; train a smaller one")]
    LargeDictionary,
    /// The codec can't use the dictionary.
    #[error(
        "{codec} finds the dictionary of {bytes} bytes damaged; train it again, or give raw \
         content that does not begin like a zstd dictionary"
    )]
    Dictionary {
        /// The codec's name.
        codec: &'static str,
        /// The size of the dictionary in bytes.
        bytes: usize,
    },
    /// A dictionary of this size can't be trained.
    #[error("a dictionary of {bytes} bytes is too small; train one of {min} bytes or more")]
    DictionarySize {
        /// The requested size in bytes.
        bytes: usize,
        /// The minimum size in bytes.
        min: usize,
    },
    /// There are too few samples to train a dictionary of this size.
    #[error(
        "too few blocks to train a dictionary of this size: {given}, and it takes {needed}; \
         give more, or train a smaller one"
    )]
    TooFewSamples {
        /// The number of samples that the caller passed.
        given: usize,
        /// The minimum number of samples.
        needed: usize,
    },
    /// The library could not train a dictionary from the samples.
    #[error(
        "no dictionary could be trained from these samples: {reason}; give others, or more of them"
    )]
    Training {
        /// The reason that the library reports.
        reason: &'static str,
    },
    /// The system has no more memory for a stream.
    #[error(
        "no memory for a stream of {bytes} bytes; free some, or take a lower level or fewer streams"
    )]
    NoMemory {
        /// The number of bytes requested.
        bytes: usize,
    },
    /// The source is longer than the block for which the stream was created.
    #[error("{bytes} bytes are too many for this stream, which was made for blocks of {block}")]
    TooLong {
        /// The length of the source.
        bytes: usize,
        /// The block size in bytes.
        block: usize,
    },
    /// The compressed data do not decompress to the expected length.
    #[error(
        "{compressed} bytes of {codec} data do not decompress to {expected} bytes: they are damaged"
    )]
    Corrupt {
        /// The codec's name.
        codec: &'static str,
        /// The length of the compressed data.
        compressed: usize,
        /// The expected length after decompression.
        expected: usize,
    },
    /// The library failed for another reason. This is a bug in this crate or in the library.
    #[error("{codec} failed with its error {code}; please report this as a bug")]
    Library {
        /// The codec's name.
        codec: &'static str,
        /// The library's error code.
        code: usize,
    },
}

/// Returns a name in the form for a message: escaped to one line, and shortened, because only an
/// invalid name is long.
fn shown(name: &str) -> String {
    let shown = name.chars().take(QUOTED_MAX).flat_map(char::escape_debug).collect::<String>();
    if name.chars().nth(QUOTED_MAX).is_some() { shown + "..." } else { shown }
}
