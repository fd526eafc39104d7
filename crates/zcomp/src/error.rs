//! What can go wrong with codecs.

use std::ops::RangeInclusive;

use crate::names::ALL;

/// The most bytes of a dictionary, for [`Error::LargeDictionary`] too.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 16 << 20;

/// Why a codec could not be had, or did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No algorithm has this name.
    #[error("unknown algorithm '{}'; available are: {}", shown(name), ALL.join(", "))]
    UnknownAlgorithm {
        /// The name asked for.
        name: String,
    },
    /// The kernel has an algorithm of this name, this library does not.
    #[error("algorithm '{name}' is not supported; available are: {}", ALL.join(", "))]
    Unsupported {
        /// The name asked for.
        name: &'static str,
    },
    /// The level is none of the codec's.
    #[error("level {level} is out of range for {codec}: {} to {}", range.start(), range.end())]
    Level {
        /// The codec's name.
        codec: &'static str,
        /// The level asked for.
        level: i32,
        /// The levels there are.
        range: RangeInclusive<i32>,
    },
    /// No stream works on blocks of this size.
    #[error("a block of {block} bytes can't be compressed; 1 to {max} bytes are possible")]
    Block {
        /// Bytes asked for.
        block: usize,
        /// The largest block there is.
        max: usize,
    },
    /// A dictionary without content.
    #[error("an empty dictionary can't be used; give one with content, or none")]
    EmptyDictionary,
    /// A dictionary has more bytes than there may be.
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
        /// Bytes of the dictionary.
        bytes: usize,
    },
    /// No dictionary of this size can be trained.
    #[error("a dictionary of {bytes} bytes is too small; train one of {min} bytes or more")]
    DictionarySize {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes it has at least.
        min: usize,
    },
    /// There is too little to train a dictionary with.
    #[error(
        "too few blocks to train a dictionary of this size: {given}, and it takes {needed}; \
         give more, or train a smaller one"
    )]
    TooFewSamples {
        /// Blocks there were.
        given: usize,
        /// Blocks it takes.
        needed: usize,
    },
    /// The trainer made nothing of the samples.
    #[error(
        "no dictionary could be trained from these samples: {reason}; give others, or more of them"
    )]
    Training {
        /// What the library says.
        reason: &'static str,
    },
    /// The memory given for a stream is too small.
    #[error("a stream of {codec} needs {needed} bytes of memory, {given} were given")]
    Memory {
        /// The codec's name.
        codec: &'static str,
        /// Bytes it takes.
        needed: usize,
        /// Bytes there were.
        given: usize,
    },
    /// The system has no memory for a stream.
    #[error(
        "no memory for a stream of {bytes} bytes; free some, or take a lower level or fewer streams"
    )]
    NoMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// More was to be compressed at once than the stream was made for.
    #[error("{bytes} bytes are too many for this stream, which was made for blocks of {block}")]
    TooLong {
        /// Bytes given.
        bytes: usize,
        /// Bytes possible.
        block: usize,
    },
    /// The compressed data does not decompress to what it should.
    #[error(
        "{compressed} bytes of {codec} data do not decompress to {expected} bytes: they are damaged"
    )]
    Corrupt {
        /// The codec's name.
        codec: &'static str,
        /// Bytes of compressed data.
        compressed: usize,
        /// Bytes that should come of them.
        expected: usize,
    },
    /// The codec's library refused for a reason of its own; a bug here or there.
    #[error("{codec} failed with its error {code}; please report this as a bug")]
    Library {
        /// The codec's name.
        codec: &'static str,
        /// The library's number for the reason.
        code: usize,
    },
}

/// Returns a name on one line, and no more of it than makes it known: no algorithm's is longer.
fn shown(name: &str) -> String {
    const LONGEST: usize = 40;
    let shown = name.chars().take(LONGEST).flat_map(char::escape_debug).collect::<String>();
    if name.chars().nth(LONGEST).is_some() { shown + "..." } else { shown }
}
