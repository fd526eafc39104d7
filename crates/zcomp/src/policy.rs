//! Limits and tuning parameters. Limits that the C libraries set are in the files of the codecs.

/// The maximum size of a stream's blocks in bytes. This size fits in the C integers of the codecs.
pub const BLOCK_BYTES_MAX: usize = 1 << 30;
/// The alignment of contexts in bytes: a cache line. zstd requires only the alignment of words, but
/// is faster if its tables begin on cache lines.
pub(crate) const CONTEXT_ALIGN: usize = 64;

/// The maximum size of a dictionary in bytes.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 16 << 20;
/// The minimum size of a dictionary in bytes: ZDICT_DICTSIZE_MIN of the library.
pub const DICTIONARY_BYTES_MIN: usize = 256;
/// The minimum number of samples. The trainer learns from some samples and tests with the others.
pub(crate) const SAMPLES_MIN: usize = 8;

/// The minimum offset of a match, in bytes, at which a decoder's loads wait for no earlier store.
pub(crate) const RUN_FAR_OFFSET: usize = 64;
/// The maximum length, in bytes, of matches that a decoder copies fast at any offset.
pub(crate) const RUN_SHORT_BYTES: usize = 64;
/// The distance, in bytes, between the positions that the search for a long run reads.
pub(crate) const RUN_STRIDE: usize = 128;
/// The maximum number of sequences in a walk. A walk over more sequences takes longer than the
/// library's slow copy of the match.
pub(crate) const TAIL_WALKED_MAX: usize = 32;

/// The maximum number of characters of a name in a message. Every valid name is shorter.
pub(crate) const QUOTED_MAX: usize = 40;
