//! Tuning parameters.

/// The unit in bytes to which allocators round up sizes.
pub(crate) const HEAP_GRAIN: usize = 16;

/// The minimum number of bytes within its limit that an empty cache must leave for values.
pub(crate) const ROOM_MIN: usize = 64 << 10;
/// Pairs of a minimum limit in bytes, and the order of the pool's objects from this limit on:
/// caches with larger limits use longer blocks.
pub(crate) const BLOCKS: [(usize, u32); 3] = [(8 << 20, 4), (2 << 20, 2), (0, 0)];
/// The memory kept free for growing structures: 1/MARGIN_SHARE of the limit, ...
pub(crate) const MARGIN_SHARE: usize = 256;
/// ... but at least and at most these numbers of bytes.
pub(crate) const MARGIN: (usize, usize) = (16 << 10, 128 << 10);

/// The number of slots that are allocated at a time: small enough for a small cache. A large cache
/// does not copy its slots when their number grows.
pub(crate) const CHUNK: usize = 64;
/// A set of slots is sparse if their number exceeds SPARSE times the number of slots in use.
pub(crate) const SPARSE: usize = 4;

/// The number of bytes by which a codec's output buffer exceeds a piece, because zstd needs a few
/// bytes more than it writes.
pub(crate) const SLACK: usize = 64;
/// The maximum number of threads that compress or decompress at the same time with one coder.
pub(crate) const LANES_MAX: usize = 4;
/// The streams of a coder beyond the first one may use at most 1/LANES_SHARE of the limit.
pub(crate) const LANES_SHARE: usize = 128;

/// The estimated memory that the pool needs for a value beyond the value's bytes: 1/WASTE_SHARE of
/// the compressed bytes, because pieces have arbitrary lengths, ...
pub(crate) const WASTE_SHARE: usize = 8;
/// ... plus PIECE_BYTES bytes for each piece, plus `POOL_GROWTH` bytes in total.
pub(crate) const PIECE_BYTES: usize = 160;
/// See [`PIECE_BYTES`].
pub(crate) const POOL_GROWTH: usize = 16 << 10;

/// The number of refused stores after which the pool may be compacted.
pub(crate) const REFUSALS: u32 = 32;
/// The pool is compacted if that frees at least 1/FREEABLE_SHARE of its memory, ...
pub(crate) const FREEABLE_SHARE: usize = 32;
/// ... and frees at most SHRINK_BYTES bytes at a time, because other threads wait for the lock.
pub(crate) const SHRINK_BYTES: usize = 1 << 20;
/// An empty cache is reset if the memory left behind exceeds 1/LEFT_SHARE of the limit.
pub(crate) const LEFT_SHARE: usize = 64;
/// The table shrinks if its capacity exceeds TABLE_ROOM times the number of its values, ...
pub(crate) const TABLE_ROOM: usize = 4;
/// ... and exceeds TABLE_LEAST.
pub(crate) const TABLE_LEAST: usize = 256;

/// The number of slots whose values are copied as samples before the lock is released.
pub(crate) const COPIED_AT_ONCE: u32 = 16;
/// The number of bytes that are packed again before the lock is released.
pub(crate) const PACKED_AT_ONCE: usize = 16 << 10;
/// The maximum length of a sample in bytes, because dictionaries are for small values.
pub(crate) const SAMPLE_BYTES_MAX: usize = 8 << 10;
/// The number of bytes of samples per byte of the dictionary. Fewer bytes make the dictionary
/// worse; more hardly improve it.
pub(crate) const BYTES_OF_SAMPLES: usize = 100;
/// A dictionary uses at most 1/DICTIONARY_SHARE of the limit, within these bounds in bytes, ...
pub(crate) const DICTIONARY_SHARE: usize = 1024;
/// See [`DICTIONARY_SHARE`].
pub(crate) const DICTIONARY_BYTES: (usize, usize) = (1 << 10, 128 << 10);
/// ... and the samples use at most 1/SAMPLES_SHARE of the limit.
pub(crate) const SAMPLES_SHARE: usize = 8;
/// One of TRIED_OF values is used to test the dictionary, not to train it.
pub(crate) const TRIED_OF: usize = 8;
/// The percentage of the test values' bytes that a dictionary must save; a dictionary that saves no
/// more than this is dropped.
pub(crate) const SAVED_LEAST: usize = 5;
/// A dictionary is used when its expected saving is at least this percentage of the memory that it
/// needs.
pub(crate) const SAVES_PERCENT: usize = 150;
