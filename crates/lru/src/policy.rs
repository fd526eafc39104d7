//! Tuning parameters.

/// The unit in bytes to which allocators round up sizes.
pub(crate) const HEAP_GRAIN: usize = 16;

/// The minimum number of bytes of the limit that an empty cache must leave for values.
pub(crate) const ROOM_MIN: usize = 64 << 10;
/// Each pair holds a minimum limit in bytes, and the order of the pool's blocks from this limit on.
/// Caches with larger limits use longer blocks.
pub(crate) const BLOCKS: [(usize, u32); 3] = [(8 << 20, 4), (2 << 20, 2), (0, 0)];
/// The memory that is kept free for growing structures is 1/MARGIN_SHARE of the limit, within the
/// bounds `MARGIN`.
pub(crate) const MARGIN_SHARE: usize = 256;
/// The minimum and the maximum of the memory that is kept free for growing structures, in bytes.
pub(crate) const MARGIN: (usize, usize) = (16 << 10, 128 << 10);

/// The number of slots in a chunk. A chunk is one allocation, and fits in a small cache. A large
/// cache grows by chunks, so it never copies its slots.
pub(crate) const CHUNK: usize = 64;
/// A set of slots is sparse if their number exceeds SPARSE times the number of slots in use.
pub(crate) const SPARSE: usize = 4;

/// The number of bytes by which a codec's output buffer is longer than a piece. zstd needs a buffer
/// that is a few bytes longer than its output.
pub(crate) const SLACK: usize = 64;
/// The maximum number of threads that compress or decompress at the same time with one coder.
pub(crate) const LANES_MAX: usize = 4;
/// The streams of a coder beyond the first one can use at most 1/LANES_SHARE of the limit.
pub(crate) const LANES_SHARE: usize = 128;

/// The pool is estimated to need 1/WASTE_SHARE more memory than the compressed bytes of a value,
/// because pieces have arbitrary lengths.
pub(crate) const WASTE_SHARE: usize = 8;
/// The estimated number of further bytes that the pool needs for each piece of a value.
pub(crate) const PIECE_BYTES: usize = 160;
/// The estimated number of further bytes that the pool needs for a value, independent of its
/// length.
pub(crate) const POOL_GROWTH: usize = 16 << 10;

/// The number of refused stores between two attempts to compact the pool.
pub(crate) const REFUSALS: u32 = 32;
/// The pool is compacted if compaction frees more than 1/FREEABLE_SHARE of its memory.
pub(crate) const FREEABLE_SHARE: usize = 32;
/// A compaction stops after it has freed this number of bytes, because other threads wait for the
/// lock.
pub(crate) const SHRINK_BYTES: usize = 1 << 20;
/// An empty cache is reset if the memory that removed values left behind exceeds 1/LEFT_SHARE of
/// the limit.
pub(crate) const LEFT_SHARE: usize = 64;
/// The table shrinks if its capacity exceeds `TABLE_LEAST`, and exceeds TABLE_ROOM times the number
/// of its values.
pub(crate) const TABLE_ROOM: usize = 4;
/// A table whose capacity is at most this number of values does not shrink.
pub(crate) const TABLE_LEAST: usize = 256;

/// The number of slots whose values are copied as samples before the lock is released.
pub(crate) const COPIED_AT_ONCE: u32 = 16;
/// The number of bytes that are packed again with the trained dictionary before the lock is
/// released.
pub(crate) const PACKED_AT_ONCE: usize = 16 << 10;
/// The maximum length of a sample in bytes, because dictionaries are for small values.
pub(crate) const SAMPLE_BYTES_MAX: usize = 8 << 10;
/// The number of bytes of samples for each byte of the dictionary. With fewer samples the
/// dictionary is worse. With more samples it is hardly better.
pub(crate) const BYTES_OF_SAMPLES: usize = 100;
/// The length of a dictionary is 1/DICTIONARY_SHARE of the limit, within the bounds
/// `DICTIONARY_BYTES`.
pub(crate) const DICTIONARY_SHARE: usize = 1024;
/// The minimum and the maximum length of a dictionary in bytes.
pub(crate) const DICTIONARY_BYTES: (usize, usize) = (1 << 10, 128 << 10);
/// The samples use at most 1/SAMPLES_SHARE of the limit. A dictionary is trained at the latest when
/// the small values reach this size.
pub(crate) const SAMPLES_SHARE: usize = 8;
/// One in TRIED_OF samples is used only to test the dictionary. The other samples train it.
pub(crate) const TRIED_OF: usize = 8;
/// A dictionary must save more than this percentage of the compressed bytes of the test samples.
/// Otherwise it is dropped.
pub(crate) const SAVED_LEAST: usize = 5;
/// A dictionary is used when its expected saving is at least this percentage of the memory that it
/// needs.
pub(crate) const SAVES_PERCENT: usize = 150;
