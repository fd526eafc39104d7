//! What is a choice and no fact: when a block is stored anew, how long one request keeps a stream,
//! how much a job does at a time. Sizes of a format or a structure stand where those do.

use std::time::Duration;
use zsmalloc::{ClassTable, Geometry, ORDER_MAX};

/// A block is stored anew without its dead slots when one in so many of its own is dead: that
/// frees as much as it compresses.
const REWRITE_AT_DEAD_OF_BLOCK: u32 = 2;
/// Or when of all slots in objects more than one in so many is dead: about 3% is what they may
/// cost.
const REWRITE_AT_DEAD_OF_DEVICE: u64 = 32;

/// Raw is what compresses by less than one in so many bytes: the least that is worth a codec's
/// time.
const RAW_ABOVE: usize = 64;

/// Lengths that differ by so many bytes are mostly of one size class, or of two beside each other.
pub(crate) const SAME_PLACE_WITHIN: usize = 16;

/// In the native geometry, whose classes are 8 bytes apart, a recompression must save one in so
/// many bytes.
const RECOMPRESS_MUST_SAVE: usize = 16;

/// Runs of slots that a discard frees before it gives its stream back, for requests that wait for
/// one: some milliseconds.
pub(crate) const DISCARD_RUNS_PER_STREAM: usize = 128;
/// Slots that it tries before it asks again where the next is that there is.
pub(crate) const DISCARD_RUN_SLOTS: u64 = 512;
/// The same in blocks.
pub(crate) const DISCARD_BLOCKS_PER_STREAM: usize = 1 << 14;

/// Slots whose states are told by one look, which holds no lock: a block at least.
pub(crate) const STATES_PER_LOOK: usize = 64;
const _: () = assert!(STATES_PER_LOOK >= 1 << ORDER_MAX);

/// Items that a selection gathers at a time, in half a MiB.
pub(crate) const SELECT_ITEMS_MAX: usize = 1 << 16;
/// Bytes by which lengths differ that a selection tells apart.
pub(crate) const SELECT_BUCKET_BYTES: usize = 64;

/// Most blocks of 4 KiB that one write to the backing store has: 1 MiB.
pub(crate) const WRITE_RUN_BLOCKS_MAX: usize = 256;
/// Such writes that are made durable together, if nothing else is set.
pub(crate) const WRITES_PER_SYNC_DEFAULT: u32 = 4;
/// Most groups of them that are written, or leave memory, while one more is copied: so 20 MiB are
/// on their way.
pub(crate) const WRITE_GROUPS_IN_FLIGHT: usize = 4;

/// Bytes of a file that are brought to disk while others are written, so that the last sync has
/// little to wait for.
pub(crate) const FLUSH_EVERY: u64 = 8 << 20;
/// Threads of a restore, each with a chunk: most of its time is memory touched for the first time.
pub(crate) const RESTORE_THREADS_MAX: usize = 4;
/// How long a save waits for one read of the backing store, if nothing else is set.
pub(crate) const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How often it looks meanwhile whether it is cancelled.
pub(crate) const CANCEL_TICK: Duration = Duration::from_millis(50);
/// How often it is looked whether a job has ended.
pub(crate) const JOB_END_TICK: Duration = Duration::from_millis(5);

/// Of the pool's limit, what tables may take beside it where they are limited with it: one in so
/// many bytes. 16 bytes for each object of 64.
pub(crate) const TABLES_PER_PAGES: u64 = 4;
/// Bytes below the limit of all memory that are kept for what comes without asking.
pub(crate) const UNASKED_MARGIN: u64 = 64 << 10;

/// Returns whether a block is stored anew without its dead slots, `dead` of `members`; on the
/// device are `all_dead` of `all`.
pub(crate) fn should_rewrite(dead: u32, members: u32, all_dead: u64, all: u64) -> bool {
    dead * REWRITE_AT_DEAD_OF_BLOCK >= members || all_dead * REWRITE_AT_DEAD_OF_DEVICE > all
}

/// From how many bytes on the object of `len` bytes is raw.
pub(crate) fn raw_from(len: usize) -> usize {
    len - len / RAW_ABOVE
}

/// Returns whether a recompression from `old` to `new` bytes is kept.
pub(crate) fn is_worth_recompressing(classes: &ClassTable, old: usize, new: usize) -> bool {
    match classes.geometry() {
        Geometry::Native { .. } => new + old / RECOMPRESS_MUST_SAVE <= old,
        // What is larger than a slot has no class.
        Geometry::Kernel(_) => {
            let new = classes.position(new);
            new.is_some() && new < classes.position(old)
        }
    }
}
