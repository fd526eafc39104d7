//! Tuning parameters.

/// The unit in bytes to which allocators round up sizes.
pub(crate) const HEAP_GRAIN: usize = 16;

/// The minimum number of bytes of the limit that an empty cache must leave for values.
pub(crate) const ROOM_MIN: usize = 64 << 10;
/// Pairs of a minimum limit in bytes, and the order of the pool's objects from this limit on.
/// Caches with larger limits use longer blocks.
pub(crate) const BLOCKS: [(usize, u32); 3] = [(8 << 20, 4), (2 << 20, 2), (0, 0)];
/// The memory that is kept free for growing structures is 1/MARGIN_SHARE of the limit, within the
/// bounds `MARGIN`.
pub(crate) const MARGIN_SHARE: usize = 256;
/// The minimum and the maximum of the memory that is kept free for growing structures, in bytes.
pub(crate) const MARGIN: (usize, usize) = (16 << 10, 128 << 10);

/// The number of slots in a chunk, which is allocated at a time. A chunk is small enough for a
/// small cache. Because of the chunks, a large cache does not copy its slots when their number
/// grows.
pub(crate) const CHUNK: usize = 64;
/// A set of slots is sparse if their number exceeds SPARSE times the number of slots in use.
pub(crate) const SPARSE: usize = 4;

/// The number of bytes by which a codec's output buffer is longer than a piece. The reason is that
/// zstd needs a buffer a few bytes longer than its output.
pub(crate) const SLACK: usize = 64;
/// The maximum number of threads that compress or decompress at the same time with one coder.
pub(crate) const LANES_MAX: usize = 4;
/// The streams of a coder beyond the first one may use at most 1/LANES_SHARE of the limit.
pub(crate) const LANES_SHARE: usize = 128;

/// The pool is estimated to need 1/WASTE_SHARE more memory than the compressed bytes of a value,
/// because pieces have arbitrary lengths.
pub(crate) const WASTE_SHARE: usize = 8;
/// The estimated number of bytes that the pool also needs for each piece of a value.
pub(crate) const PIECE_BYTES: usize = 160;
/// The estimated number of bytes that the pool also needs for a value of any length.
pub(crate) const POOL_GROWTH: usize = 16 << 10;

/// The number of refused stores after which the pool may be compacted.
pub(crate) const REFUSALS: u32 = 32;
/// The pool is compacted if that frees more than 1/FREEABLE_SHARE of its memory.
pub(crate) const FREEABLE_SHARE: usize = 32;
/// A compaction stops after it has freed this number of bytes, because other threads wait for the
/// lock.
pub(crate) const SHRINK_BYTES: usize = 1 << 20;
/// An empty cache is reset if the memory that removed values left behind exceeds 1/LEFT_SHARE of
/// the limit.
pub(crate) const LEFT_SHARE: usize = 64;
/// The table shrinks if its capacity exceeds both `TABLE_LEAST` and TABLE_ROOM times the number of
/// its values.
pub(crate) const TABLE_ROOM: usize = 4;
/// A table with a capacity for at most this number of values does not shrink.
pub(crate) const TABLE_LEAST: usize = 256;

/// The number of slots whose values are copied as samples before the lock is released.
pub(crate) const COPIED_AT_ONCE: u32 = 16;
/// The number of bytes that are packed again with the trained dictionary before the lock is
/// released.
pub(crate) const PACKED_AT_ONCE: usize = 16 << 10;
/// The maximum length of a sample in bytes, because dictionaries are for small values.
pub(crate) const SAMPLE_BYTES_MAX: usize = 8 << 10;
/// The number of bytes of samples for each byte of the dictionary. Fewer samples make the
/// dictionary worse; more samples hardly improve it.
pub(crate) const BYTES_OF_SAMPLES: usize = 100;
/// The length of a dictionary is 1/DICTIONARY_SHARE of the limit, within the bounds
/// `DICTIONARY_BYTES`.
pub(crate) const DICTIONARY_SHARE: usize = 1024;
/// The minimum and the maximum length of a dictionary in bytes.
pub(crate) const DICTIONARY_BYTES: (usize, usize) = (1 << 10, 128 << 10);
/// A dictionary is trained at the latest when the stored small values have 1/SAMPLES_SHARE of the
/// limit, so that the samples use no more memory than this share.
pub(crate) const SAMPLES_SHARE: usize = 8;
/// One of TRIED_OF samples is used to test the dictionary, not to train it.
pub(crate) const TRIED_OF: usize = 8;
/// The percentage of the test values' bytes that a dictionary must save; a dictionary that saves no
/// more than this is dropped.
pub(crate) const SAVED_LEAST: usize = 5;
/// A dictionary is used when its expected saving is at least this percentage of the memory that it
/// needs.
pub(crate) const SAVES_PERCENT: usize = 150;
