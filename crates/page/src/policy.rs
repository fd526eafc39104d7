//! Tuning parameters: the sizes of growing tables, the ranges that one system call releases, and
//! the durations of waits. The layout of offsets is in `config`.

use std::time::Duration;

/// The number of buckets of the address index's first table, which are enough for a small space.
pub(crate) const INDEX_BUCKETS_FIRST: usize = 64;
/// The number of tables of the address index. Each table has twice the buckets of the previous
/// table. The last table has two buckets for each possible section.
pub(crate) const INDEX_TABLES: usize = 12;

/// The length of a group of a `MaxTree`. One vector instruction compares all numbers of a group.
pub(crate) const MAX_TREE_WIDTH: usize = 16;
/// The maximum number of levels of a `MaxTree`, enough for 2 to the power of 28 numbers.
pub(crate) const MAX_TREE_LEVELS: usize = 7;

/// The number of elements of a `GrowingTable`'s first chunk; 1 in a loom model, so that the chunk
/// soon fills.
pub(crate) const TABLE_CHUNK_FIRST: u32 = if cfg!(all(test, loom)) { 1 } else { 1024 };
/// The number of chunks of a `GrowingTable`. Each chunk has twice the length of the previous chunk.
pub(crate) const TABLE_CHUNKS: usize = 22;

/// The maximum number of address ranges that one system call releases. More ranges per call would
/// hardly reduce the cost of a range, and would need more stack.
pub(crate) const RELEASE_RANGES_MAX: usize = 64;

/// The maximum duration of a wait. A longer wait aborts the process. No correct wait takes this
/// time, even on a slow machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(300);
/// The maximum time that one round adds to the wait, because the process may have been stopped
/// during the round.
pub(crate) const WAIT_ROUND_MAX: Duration = Duration::from_secs(1);
