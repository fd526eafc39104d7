//! Tunable choices: when a block is rewritten, how long a request keeps a stream, and how much a
//! job does at a time. Sizes that a format or a structure determines are defined there.

use std::time::Duration;
use zsmalloc::{ClassTable, Geometry, ORDER_MAX};

/// A block is rewritten without its dead members if at least one in this many of its members is
/// dead: the rewrite then frees at least as much as it compresses.
const REWRITE_AT_DEAD_OF_BLOCK: u32 = 2;
/// A block is also rewritten if more than one in this many members on the device is dead. So dead
/// members take about 3%.
const REWRITE_AT_DEAD_OF_DEVICE: u64 = 32;

/// An object is stored raw if compression saves less than one in this many bytes, the least that is
/// worth the time of decompression.
const RAW_ABOVE: usize = 64;

/// Lengths that differ by at most this many bytes mostly have the same size class, or neighbouring
/// ones.
pub(crate) const SAME_PLACE_WITHIN: usize = 16;

/// In the native geometry, whose classes are 8 bytes apart, a recompression must save one in this
/// many bytes.
const RECOMPRESS_MUST_SAVE: usize = 16;

/// The number of runs of slots that a discard frees before it releases its stream to waiting
/// requests. This takes some milliseconds.
pub(crate) const DISCARD_RUNS_PER_STREAM: usize = 128;
/// The number of slots that a discard tries before it searches for the next existing entry again.
pub(crate) const DISCARD_RUN_SLOTS: u64 = 512;
/// The number of blocks that a discard frees before it releases its stream.
pub(crate) const DISCARD_BLOCKS_PER_STREAM: usize = 1 << 14;

/// The number of slots whose states are read at a time, without a lock; at least a block.
pub(crate) const STATES_PER_LOOK: usize = 64;
const _: () = assert!(STATES_PER_LOOK >= 1 << ORDER_MAX);

/// The number of items that a selection collects at a time, which take half a MiB.
pub(crate) const SELECT_ITEMS_MAX: usize = 1 << 16;
/// The range of lengths, in bytes, that a selection treats as equal.
pub(crate) const SELECT_BUCKET_BYTES: usize = 64;

/// The maximum number of 4 KiB blocks in one write to the backing store: 1 MiB.
pub(crate) const WRITE_RUN_BLOCKS_MAX: usize = 256;
/// The default number of such writes that share a sync.
pub(crate) const WRITES_PER_SYNC_DEFAULT: u32 = 4;
/// The maximum number of groups of writes that are being written or committed while another one is
/// copied. So at most 20 MiB are in flight.
pub(crate) const WRITE_GROUPS_IN_FLIGHT: usize = 4;

/// The number of bytes after which the writing of a file to disk is started, so that the final sync
/// has little left to do.
pub(crate) const FLUSH_EVERY: u64 = 8 << 20;
/// The maximum number of threads of a restore, each with a chunk. Most of their time goes to page
/// faults on new memory.
pub(crate) const RESTORE_THREADS_MAX: usize = 4;
/// The default time that a save waits for one read of the backing store.
pub(crate) const READ_PATIENCE: Duration = Duration::from_secs(30);
/// The interval at which a waiting save checks whether it is cancelled.
pub(crate) const CANCEL_TICK: Duration = Duration::from_millis(50);
/// The interval at which a thread checks for the end of a job.
pub(crate) const JOB_END_TICK: Duration = Duration::from_millis(5);

/// If tables are limited together with the pool's pages, they may take one in this many bytes of
/// the pool's limit. This allows 16 bytes for each object of 64.
pub(crate) const TABLES_PER_PAGES: u64 = 4;
/// The bytes below the limit of all memory that are reserved for allocations that do not check the
/// limit.
pub(crate) const UNASKED_MARGIN: u64 = 64 << 10;

/// Returns true if a block should be rewritten without its dead members. `dead` of its `members`
/// are dead, and `all_dead` of `all` on the device.
pub(crate) fn should_rewrite(dead: u32, members: u32, all_dead: u64, all: u64) -> bool {
    dead * REWRITE_AT_DEAD_OF_BLOCK >= members || all_dead * REWRITE_AT_DEAD_OF_DEVICE > all
}

/// Returns the compressed length from which on an object of `len` bytes is stored raw.
pub(crate) fn raw_from(len: usize) -> usize {
    len - len / RAW_ABOVE
}

/// Returns true if a recompression from `old` to `new` bytes is kept.
pub(crate) fn is_worth_recompressing(classes: &ClassTable, old: usize, new: usize) -> bool {
    match classes.geometry() {
        Geometry::Native { .. } => new + old / RECOMPRESS_MUST_SAVE <= old,
        // A length greater than a slot has no class.
        Geometry::Kernel(_) => {
            let new = classes.position(new);
            new.is_some() && new < classes.position(old)
        }
    }
}
