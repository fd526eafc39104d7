//! Tunable choices: when a block is rewritten, how long a request keeps a stream, and how much a
//! job does at a time. Sizes that are part of a format or structure are defined in other files.

use std::time::Duration;
use zsmalloc::{ClassTable, Geometry, ORDER_MAX};

/// A block is rewritten without its dead members if at least `1 / REWRITE_AT_DEAD_OF_BLOCK` of its
/// members are dead. A rewrite then frees at least one member for each member that it compresses.
const REWRITE_AT_DEAD_OF_BLOCK: u32 = 2;
/// A block with dead members is also rewritten if more than `1 / REWRITE_AT_DEAD_OF_DEVICE` of all
/// members on the device are dead. So dead members take at most about 3% of the memory of all
/// members.
const REWRITE_AT_DEAD_OF_DEVICE: u64 = 32;

/// An object is stored raw if compression saves less than `1 / RAW_ABOVE` of the object's length. A
/// smaller saving does not justify the time of decompression.
const RAW_ABOVE: usize = 64;

/// The maximum difference between the lengths of two objects, in bytes, at which the objects are
/// assumed to have equal or adjacent size classes.
pub(crate) const SAME_PLACE_WITHIN: usize = 16;

/// In the native geometry, a recompression is kept if it saves at least `1 / RECOMPRESS_MUST_SAVE`
/// of the old length.
const RECOMPRESS_MUST_SAVE: usize = 16;

/// The number of runs of slots that a discard frees before it releases its stream to waiting
/// requests. To free this number of runs takes some milliseconds.
pub(crate) const DISCARD_RUNS_PER_STREAM: usize = 128;
/// The maximum number of consecutive slots that a discard visits before it searches for the next
/// existing entry.
pub(crate) const DISCARD_RUN_SLOTS: u64 = 512;
/// The number of blocks that a discard frees before it releases its stream to waiting requests.
pub(crate) const DISCARD_BLOCKS_PER_STREAM: usize = 1 << 14;

/// The number of slots whose states are read together, without a lock.
pub(crate) const STATES_PER_LOOK: usize = 64;
const _: () = assert!(STATES_PER_LOOK >= 1 << ORDER_MAX);

/// The maximum number of items that a selection collects in one walk. The list of collected items
/// takes half a MiB.
pub(crate) const SELECT_ITEMS_MAX: usize = 1 << 16;
/// The width of a bucket in bytes. A selection treats lengths in the same bucket as equal.
pub(crate) const SELECT_BUCKET_BYTES: usize = 64;

/// The maximum number of 4 KiB blocks in one write to the backing store, 1 MiB in total.
pub(crate) const WRITE_RUN_BLOCKS_MAX: usize = 256;
/// The default number of writes to the backing store that share a sync.
pub(crate) const WRITES_PER_SYNC_DEFAULT: u32 = 4;
/// The maximum number of groups of writes that are in flight while the job copies another group. By
/// default, at most 20 MiB of writes are in flight.
pub(crate) const WRITE_GROUPS_IN_FLIGHT: usize = 4;

/// A save starts a write to disk whenever it has written this number of bytes, so that little is
/// left for the final sync.
pub(crate) const FLUSH_EVERY: u64 = 8 << 20;
/// The maximum number of threads of a restore, each of which loads one chunk at a time. The threads
/// spend most of their time in page faults on new memory.
pub(crate) const RESTORE_THREADS_MAX: usize = 4;
/// The default maximum time that a save waits for one read of the backing store.
pub(crate) const READ_PATIENCE: Duration = Duration::from_secs(30);
/// The interval at which a waiting save checks whether it is cancelled.
pub(crate) const CANCEL_TICK: Duration = Duration::from_millis(50);
/// The interval between two checks by a thread that waits for the end of a job.
pub(crate) const JOB_END_TICK: Duration = Duration::from_millis(5);

/// If tables are limited together with the pool's pages, the tables are allowed to take at most the
/// pool's limit divided by this number. The value 4 allows 16 bytes of tables for each object of 64
/// bytes.
pub(crate) const TABLES_PER_PAGES: u64 = 4;
/// The reserve below the limit of all memory, in bytes. Allocations that do not check the limit use
/// the reserve.
pub(crate) const UNASKED_MARGIN: u64 = 64 << 10;

/// The total size, in bytes, of the decompressed blocks that a stream keeps. A stream keeps at
/// least `DECODED_BLOCKS_MIN` blocks of any size.
pub(crate) const DECODED_BYTES: usize = 64 << 10;
pub(crate) const DECODED_BLOCKS_MIN: usize = 2;
/// The number of versions that all blocks of a device share. With more versions, a change of one
/// block invalidates fewer copies of other blocks.
pub(crate) const BLOCK_VERSIONS: usize = 1024;
/// The minimum size, in bytes, that [`Device::changed_bytes`](crate::Device::changed_bytes) adds
/// for an object, because to change even a small object takes time.
pub(crate) const CHANGED_MIN: i64 = 1024;

/// The maximum number of entries that one step of a walk visits: the entries of one leaf of the
/// table.
pub(crate) const WALK_STEP_ENTRIES: usize = 512;
/// The stack size, in bytes, of a thread that writes a group to the backing store, or loads chunks.
/// The thread calls codecs and the pool.
pub(crate) const JOB_STACK: usize = 512 << 10;
/// The stack size, in bytes, of the thread that reads the backing store for a save. The thread only
/// calls the store.
pub(crate) const SAVE_READ_STACK: usize = 128 << 10;
/// The size of the buffer through which a saved file is read, in bytes. Longer reads bypass the
/// buffer.
pub(crate) const RESTORE_BUFFER: usize = 16 << 10;
/// The maximum number of lost ranges that a result lists. Memory for the list is allocated before a
/// save begins.
pub(crate) const LOST_RANGES_MAX: usize = 1024;

/// The maximum number of characters of a quoted text in a message.
pub(crate) const QUOTED_MAX: usize = 80;

/// Returns true if a block should be rewritten without its dead members. `dead` of the block's
/// `members` members are dead, and `all_dead` of the `all` members on the device.
pub(crate) fn should_rewrite(dead: u32, members: u32, all_dead: u64, all: u64) -> bool {
    dead * REWRITE_AT_DEAD_OF_BLOCK >= members || all_dead * REWRITE_AT_DEAD_OF_DEVICE > all
}

/// Returns the minimum compressed length, in bytes, at which an object of `len` bytes is stored
/// raw.
pub(crate) fn raw_from(len: usize) -> usize {
    len - len / RAW_ABOVE
}

/// Returns true if a recompression from `old` to `new` bytes saves enough to be kept.
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
