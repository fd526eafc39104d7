//! Thresholds and other tuning parameters of the pager, each with its reason.

use std::time::Duration;

/// The number of blocks of a clock window. A `u64` has a bit for each of these blocks. An eviction
/// handles one clock window at a time.
pub(crate) const CLOCK_WINDOW: usize = 64;

/// The size of a batch: the most bytes that a fault fills, or an eviction evicts, at once. A larger
/// block is a batch of its own.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// Returns the number of blocks of `size` bytes in a batch.
pub(crate) const fn batch(size: usize) -> usize {
    if size < BATCH_BYTES { BATCH_BYTES / size } else { 1 }
}

/// The buffers of contexts use at most this share (1/32) of a limit. The contexts for two
/// processors exist even if their buffers exceed this share.
const CONTEXTS_SHARE: usize = 32;

/// Returns the number of contexts: one for each processor, one for each of `threads` fault threads,
/// and two more. A low limit reduces the number of contexts.
pub(crate) fn contexts(processors: usize, threads: usize, limit: Option<u64>) -> usize {
    let of = |processors: usize| processors + 2 + threads.min(processors);
    let afforded =
        limit.map_or(CONTEXTS_MAX, |limit| limit as usize / CONTEXTS_SHARE / BATCH_BYTES);
    of(processors).min(of(2).max(afforded)).min(CONTEXTS_MAX)
}

/// The maximum heat of a block that was accessed in probation: the number of rounds in which the
/// clock skips the block.
pub(crate) const HEAT_KEPT_MAX: u32 = 3;

/// After a fork, a fault on a shared block opens at least this number of bytes. This saves faults,
/// although both parent and child may be charged for a page that only one of them uses.
pub(crate) const SHARED_BYTES: usize = 32 << 10;

/// At most this share (1/8) of the resident blocks are in probation.
pub(crate) const PROBATION_SHARE: usize = 8;

// Faults and the blocks that they fill.

/// The number of slots of `recent::Order`, the table of the last faults that fault threads handled.
pub(crate) const FAULTING_THREADS: usize = 64;
/// The maximum number of recent blocks, enough for an instruction that loads from many addresses (a
/// gather).
pub(crate) const RECENT_MAX: usize = 32;
/// The minimum number of recent blocks, enough for an instruction that copies.
pub(crate) const RECENT_MIN: usize = 4;
/// The size in bytes of all recent blocks together, unless `RECENT_MIN` or `RECENT_MAX` applies.
pub(crate) const RECENT_BYTES: usize = 128 << 10;
/// The maximum number of consecutive faults of an instruction on a resident block, if no nearby
/// block was closed between these faults. More faults show that the program itself has protected
/// the memory.
pub(crate) const RESIDENT_FAULTS_MAX: u32 = 16;
/// The maximum number of consecutive faults of an instruction on an unmanaged block. The block may
/// have been managed at the first of these faults.
pub(crate) const UNMANAGED_FAULTS_MAX: u32 = 1;
/// A fill is a refault if the block was evicted at most this number of rounds before the fill.
pub(crate) const SOON_ROUNDS: u32 = 1;
/// The maximum number of fault threads. More threads would only wait for each other's locks.
pub(crate) const FAULT_THREADS_MAX: usize = 4;
/// The size in bytes of a context's stack, enough for a fault in a build without optimisation.
/// Untouched pages of the stack use no memory.
pub(crate) const STACK_BYTES: usize = 256 << 10;
/// A thread that waits for a context checks at this interval whether all contexts belong to threads
/// that this process lacks (zm-F3).
pub(crate) const MISSING_CONTEXT_TICK: Duration = Duration::from_millis(100);
/// The maximum number of contexts. One atomic word of 32 bits has a bit for each context.
pub(crate) const CONTEXTS_MAX: usize = 32;
/// The minimum number of pages that one call populates. For fewer pages, the call saves no time.
pub(crate) const POPULATED_MIN: usize = 4;

// Waiting for room, and packing.

/// A fault waits at most this time for one eviction step of the pager thread (zm-H4).
pub(crate) const ROOM_TIME: Duration = Duration::from_millis(100);
/// The maximum total time for which a fault waits for room.
pub(crate) const ROOM_TIME_MAX: Duration = Duration::from_secs(1);
/// A fault that waits for room checks at this interval whether a fork has closed the gate.
pub(crate) const ROOM_TICK: Duration = Duration::from_millis(1);
/// While room is tight, the device is packed if this frees 1/`GAIN_SHARE` of its pages.
pub(crate) const GAIN_SHARE: u64 = 32;
/// While unevictable memory exceeds the limit, the device is packed if this frees
/// 1/`OVER_LIMIT_GAIN_SHARE` of its pages.
pub(crate) const OVER_LIMIT_GAIN_SHARE: u64 = 128;
/// An eviction is unsuccessful if it evicts less than 1/`PROGRESS_SHARE` of the requested blocks.
pub(crate) const PROGRESS_SHARE: usize = 4;
/// The pause after packing lasts this multiple of the packing's duration.
pub(crate) const PACK_PAUSE: u32 = 16;
/// The pause is computed from the packing's duration, but at most from this duration. A longer
/// packing was probably interrupted, because the process was stopped.
pub(crate) const PACK_TIME_MAX: Duration = Duration::from_millis(200);
/// The pager thread packs the device if this frees 1/`FREEABLE_SHARE` of the device's pages.
pub(crate) const FREEABLE_SHARE: u64 = 8;
/// A call that evicted blocks packs the device if this frees 1/`CALL_FREEABLE_SHARE` of the
/// device's pages. The share is smaller than for the pager thread, because the caller has asked to
/// free memory.
pub(crate) const CALL_FREEABLE_SHARE: u64 = 100;
/// The maximum size in bytes of a device that is packed as a whole. Packing it takes some 50 ms.
pub(crate) const WHOLE_MAX: u64 = 64 << 20;
/// The number of eviction steps between two checks of `FREEABLE_SHARE`.
pub(crate) const COMPACTED_STEPS: usize = 16;
/// A packing step frees `STEP_BYTES`, or 1/`STEP_SHARE` of the device's memory, whichever is more.
pub(crate) const STEP_SHARE: u64 = 256;
/// An eviction step evicts this number of bytes. Between two steps, a waiting fork can begin, and
/// other threads can evict.
pub(crate) const STEP_BYTES: usize = 1 << 20;
/// After an unsuccessful eviction, the next search for evictable blocks lasts at most this time.
pub(crate) const AGAIN_TIME: Duration = Duration::from_millis(10);

// The clock.

/// An eviction ends after this number of consecutive clock windows from which it evicted nothing,
/// because the device or the kernel refused blocks (zm-L3).
pub(crate) const REFUSED_WINDOWS_MAX: usize = 4;
/// An eviction ends after this number of rounds of the clock in which it evicted nothing. In each
/// round, hot blocks lose heat.
pub(crate) const ROUNDS_MAX: usize = HEAT_KEPT_MAX as usize + 2;
/// The number of counters of `Pager::closings`. Several clock windows share a counter.
pub(crate) const CLOSINGS: usize = 64;

// The compressor thread.

/// The copies of queued blocks use at most this share (1/64) of a limit.
pub(crate) const WAITING_SHARE: u64 = 64;
/// An evicting thread that starts a compressor thread waits at most this time until that thread
/// runs. Until then, the kernel counts the new thread, but this crate does not (zm-A2).
pub(crate) const START_TIME: Duration = Duration::from_micros(200);
/// After the system refused to start a compressor thread, this number of starts are skipped.
pub(crate) const REFUSED_STARTS: u32 = 1000;
/// The compressor thread measures the device after this number of stored blocks.
pub(crate) const WEIGHED: usize = 16;
/// A compressor thread without work ends after this time, because some programs count their
/// threads.
pub(crate) const IDLE_TIME: Duration = Duration::from_millis(50);
/// A thread that waits for the end of the compressor thread repeats its request at this interval.
pub(crate) const END_TIME: Duration = Duration::from_millis(5);
/// After the compressor thread was asked to end, this number of starts are skipped. Some programs
/// count their threads and expect only one, as Python does after a fork.
pub(crate) const STARTS_AT_REST: u32 = 64;

// Limits.

/// The length of a `counters::Window` in milliseconds.
pub(crate) const WATCHED_TIME: u64 = 5000;
/// After this number of consecutive slow time windows, the limit is regarded as too small.
pub(crate) const SLOW_WINDOWS: u32 = 2;
/// A time window is slow if faults take more than 1/`SLOW_SHARE` of its duration.
pub(crate) const SLOW_SHARE: u32 = 2;
/// A limit is large enough if it would have prevented this share (nine in ten) of the fills.
pub(crate) const PREVENTED_SHARE: (u64, u64) = (9, 10);
/// The maximum growth of the device in bytes between two measurements: the maps of a new segment
/// and the objects of a clock window.
pub(crate) const GROWTH_BYTES: u64 = 256 << 10;
/// The reserve, a free part of the limit, is at least this share (1/64) of the limit.
pub(crate) const RESERVE_SHARE: u64 = 64;
/// Evictions close chunks if page tables and words use more than this share (1/16) of the limit.
pub(crate) const TABLES_SHARE: u64 = 16;
/// The reserve holds at most this number of bytes for simultaneous faults.
pub(crate) const AT_ONCE_MAX: u64 = 1 << 20;
/// The floor, which a process is allowed to keep resident, is this share (1/64) of its limit.
pub(crate) const FLOOR_SHARE: u64 = 64;
/// If unevictable bytes exceed the limit, the floor grows by this multiple of the excess. Without
/// this growth, a process would spend all of its time on compression.
pub(crate) const EXCESS_WEIGHT: u64 = 4;
/// The floor of a process grows at most to this share (1/4) of the limit, divided by the number of
/// large processes that share the limit.
pub(crate) const OVER_LIMIT_FLOOR_SHARE: u64 = 4;
/// Room is tight if unevictable memory leaves less than this share (1/16) of the limit free.
pub(crate) const TIGHT_SHARE: u64 = 16;
/// The minimum pause after the first unsuccessful attempt to evict. Each further unsuccessful
/// attempt doubles the pause.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The upper bound of a pause if attempts take little time.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(3200);
/// The first pause is at least this multiple of the attempt's duration.
pub(crate) const WEIGHT_MIN: u32 = 8;
/// The upper bound of a pause is at least this multiple of the attempt's duration.
pub(crate) const WEIGHT_MAX: u32 = 128;
/// The pause is doubled at most this number of times.
pub(crate) const GROWTHS: u32 = 5;
/// After this number of consecutive unsuccessful attempts, most of the memory is treated as
/// incompressible.
pub(crate) const BRAKED: u32 = 2;
/// If most blocks do not compress, a block that did not compress loses heat only in one of
/// `SLOW_ROUNDS` rounds.
pub(crate) const SLOW_ROUNDS: u32 = 8;
/// If many blocks become resident during a pause, the next attempt to evict is made at once. After
/// the first failure, *many* means more than a batch. Each further failure doubles that number, up
/// to this share (1/32) of the resident blocks.
pub(crate) const NEW_SHARE: usize = 32;

// Mappings, descriptors and other threads.

/// The kernel's default maximum of mappings, used if the kernel's setting can't be read.
pub(crate) const MAP_COUNT: usize = 65_530;
/// The number of page tables that `frees_tables` tries to free. Other threads free fewer.
pub(crate) const TABLES: usize = 16;
/// An error about a refused size of at least this number of bytes reports that it is too large.
pub(crate) const MANY: usize = 1 << 40;
/// The number of buckets of a histogram. The last bucket counts times of at least 2^34 ns (17 s).
pub(crate) const BUCKETS: usize = 36;

/// The minimum size of a chunk in bytes. One page table maps this number of bytes.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
/// A region with fewer blocks than this can have a mapping for each block under the kernel's
/// default maximum of mappings.
pub(crate) const FEW_BLOCKS: usize = 8192;
/// The maximum number of blocks in probation. More blocks would not improve the choice of blocks to
/// evict.
pub(crate) const PROBATION_MAX: usize = 4096;
/// The minimum number of blocks in probation. With fewer, each block would leave probation at once.
pub(crate) const PROBATION_MIN: usize = 64;
/// The maximum number of address windows of all regions together. Each region has at least one.
pub(crate) const REGIONS_MAX: usize = 128;
/// The maximum number of address windows of an arena after the first one.
pub(crate) const WINDOWS_MAX: usize = 32;
/// The maximum number of attempts to open a file that other threads close again and again.
pub(crate) const OPENINGS_MAX: usize = 16;
/// Descriptors of this crate have the last `LAST_NUMBERS` numbers below the process's limit, or
/// below `NUMBERS_MAX` if this is lower.
pub(crate) const LAST_NUMBERS: u64 = 32;
/// The upper bound of descriptor numbers. Larger numbers would need a larger table in the kernel.
pub(crate) const NUMBERS_MAX: u64 = 1024;
/// A request to a userfaultfd fails after this number of consecutive EAGAIN results.
pub(crate) const TRIES_MAX: u32 = 10_000;
/// A thread waits at most this time at the closed gate while a fork waits for threads inside the
/// gate. A thread inside the gate may wait for the allocator's lock. The thread at the gate may
/// hold this lock, if its handler interrupted the allocator. Therefore, the thread at the gate
/// enters after this time.
pub(crate) const FORK_TIME: Duration = Duration::from_millis(20);
/// After a failed attempt to stop the world, this number of further attempts of the same thread
/// make no system call and wait for no other thread.
pub(crate) const ASKED_LATER: u32 = 16;
/// The maximum number of these attempts. If `SAFEPOINT` counts the threads, each further failure of
/// `Safepoint::stop` doubles the number, and a success resets it to `ASKED_LATER`.
pub(crate) const ASKED_LATER_MAX: u32 = 64;
/// A thread that waits for a change of a safepoint's word loads the word this number of times. Each
/// load takes some 25 ns. Then `Safepoint::leave` waits in the kernel, and `Safepoint::stop` fails.
/// During the loads, other threads often reach a safepoint at their next fault.
pub(crate) const LOOKS: u32 = if cfg!(loom) { 1 } else { 20_000 };

/// A thread that waits for a block checks at this interval whether the block was queued.
pub(crate) const HANDED_OVER: Duration = Duration::from_millis(1);
/// In a child that was created without fork handlers, the owner of a `Busy` block is regarded as
/// missing after this number of checks, if no other thread is inside the gate.
pub(crate) const MISSING_OWNER_LOOKS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_for_all_processors_if_the_limit_has_room_for_them() {
        const MIB: u64 = 1 << 20;
        assert_eq!([1, 2, 16, 64].map(|count| contexts(count, 0, None)), [3, 4, 18, CONTEXTS_MAX]);
        assert_eq!([1, 2, 16, 64].map(|count| contexts(count, 0, Some(MIB))), [3, 4, 4, 4]);
        assert_eq!([2, 16].map(|count| contexts(count, count, Some(MIB))), [6, 6]);
        // A buffer has 256 KiB, and all buffers together are allowed to use 1/32 of the limit.
        assert_eq!([39, 40, 48].map(|mib| contexts(16, 0, Some(mib * MIB))), [4, 5, 6]);
        assert_eq!([143, 144, 152].map(|mib| contexts(16, 0, Some(mib * MIB))), [17, 18, 18]);
    }
}
