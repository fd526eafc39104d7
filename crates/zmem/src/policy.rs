//! Thresholds and other tuning parameters of the pager, each with its reason.

use std::time::Duration;

/// The number of blocks of a clock window. The clock's hand examines one clock window at a time,
/// and at most one clock window is evicted at once. A `u64` has a bit for each block of a clock
/// window.
pub(crate) const CLOCK_WINDOW: usize = 64;

/// The maximum number of bytes that a fault or an eviction moves at once, unless a block is larger.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// Returns the number of blocks of `size` bytes in a batch.
pub(crate) const fn batch(size: usize) -> usize {
    if size < BATCH_BYTES { BATCH_BYTES / size } else { 1 }
}

/// The buffers of contexts use at most this share (1/32) of a limit, regardless of the number of
/// processors. The buffers for two processors are always permitted.
const CONTEXTS_SHARE: usize = 32;

/// Returns the number of contexts: one for each processor, two more, and one for each of `threads`
/// threads that handle faults.
pub(crate) fn contexts(processors: usize, threads: usize, limit: Option<u64>) -> usize {
    let of = |processors: usize| processors + 2 + threads.min(processors);
    let afforded =
        limit.map_or(CONTEXTS_MAX, |limit| limit as usize / CONTEXTS_SHARE / BATCH_BYTES);
    of(processors).min(of(2).max(afforded)).min(CONTEXTS_MAX)
}

/// The maximum number of rounds for which the clock passes over a block that was accessed in
/// probation.
pub(crate) const HEAT_KEPT_MAX: u32 = 3;

/// A fault on blocks that are shared since a fork opens at least this number of bytes. One fault
/// less is worth a few pages that parent and child both count without need.
pub(crate) const SHARED_BYTES: usize = 32 << 10;

/// At most this share (1/8) of the resident blocks is in probation.
pub(crate) const PROBATION_SHARE: usize = 8;

// Faults and the blocks that they fill.

/// The number of slots of the table of threads whose faults are handled by a fault thread.
pub(crate) const FAULTING_THREADS: usize = 64;
/// The maximum number of recent blocks: enough for an instruction that gathers words.
pub(crate) const RECENT_MAX: usize = 32;
/// The minimum number of recent blocks, for large blocks: enough for an instruction that copies.
pub(crate) const RECENT_MIN: usize = 4;
/// The size of all recent blocks together, if their number is between `RECENT_MIN` and
/// `RECENT_MAX`.
pub(crate) const RECENT_BYTES: usize = 128 << 10;
/// The maximum number of consecutive faults of one instruction on a resident block, if no block was
/// closed in between. If more faults occur, the program must have protected the memory itself.
pub(crate) const RESIDENT_FAULTS_MAX: u32 = 16;
/// The same maximum for a block that is not managed, which may have been managed when the thread
/// accessed it.
pub(crate) const UNMANAGED_FAULTS_MAX: u32 = 1;
/// The fill of a block counts as a refault if the block was evicted at most this number of rounds
/// before.
pub(crate) const SOON_ROUNDS: u32 = 1;
/// The maximum number of fault threads. More threads would only wait for the same locks.
pub(crate) const FAULT_THREADS_MAX: usize = 4;
/// The bytes of the stack of a handler context: enough for a fault, also in a build without
/// optimisation. Pages of a stack that are never touched use no memory.
pub(crate) const STACK_BYTES: usize = 256 << 10;
/// The interval at which a thread that waits for a context checks whether the threads that held the
/// contexts are missing.
pub(crate) const MISSING_CONTEXT_TICK: Duration = Duration::from_millis(100);
/// The maximum number of contexts: one word has a bit for each.
pub(crate) const CONTEXTS_MAX: usize = 32;
/// The minimum number of pages to populate with one call. For fewer pages, populating them one by
/// one is as fast.
pub(crate) const POPULATED_MIN: usize = 4;

// Waits for room, and packing.

/// The maximum time that a fault waits for a step of the pager thread (zm-H4).
pub(crate) const ROOM_TIME: Duration = Duration::from_millis(100);
/// The maximum time that a fault waits for room in all, if other threads use the room that is made.
pub(crate) const ROOM_TIME_MAX: Duration = Duration::from_secs(1);
/// The interval at which a fault that waits for room checks whether a fork has closed the gate.
pub(crate) const ROOM_TICK: Duration = Duration::from_millis(1);
/// If the limit is almost reached, the device is packed if that frees 1/`GAIN_SHARE` of its pages.
pub(crate) const GAIN_SHARE: u64 = 32;
/// If the limit can't be kept, the device is packed if that frees 1/`OVER_LIMIT_GAIN_SHARE` of its
/// pages.
pub(crate) const OVER_LIMIT_GAIN_SHARE: u64 = 128;
/// An eviction made no progress if it evicted less than 1/`PROGRESS_SHARE` of the requested blocks.
pub(crate) const PROGRESS_SHARE: usize = 4;
/// The pause after packing, as a multiple of the time that the packing took.
pub(crate) const PACK_PAUSE: u32 = 16;
/// The maximum packing time from which the pause is computed. If packing took longer, the process
/// is assumed to have been stopped during the packing.
pub(crate) const PACK_TIME_MAX: Duration = Duration::from_millis(200);
/// Objects are moved together if that frees 1/`FREEABLE_SHARE` of the device's pages.
pub(crate) const FREEABLE_SHARE: u64 = 8;
/// A call that evicted blocks compacts the device if compaction frees at least one page in
/// `CALL_FREEABLE_SHARE` pages of the device. The pager thread requires a larger share. A smaller
/// share is enough here, because the caller asked for memory to be freed.
pub(crate) const CALL_FREEABLE_SHARE: u64 = 100;
/// The maximum size in bytes of a pool that is compacted as a whole, which takes some 50 ms.
pub(crate) const WHOLE_MAX: u64 = 64 << 20;
/// The number of steps of eviction between two checks of `FREEABLE_SHARE`.
pub(crate) const COMPACTED_STEPS: usize = 16;
/// A step of packing frees 1/`STEP_SHARE` of the device's memory, or `STEP_BYTES` if that is more.
pub(crate) const STEP_SHARE: u64 = 256;
/// The bytes that are evicted in a step. After each step, a waiting fork may begin, and other
/// threads may evict.
pub(crate) const STEP_BYTES: usize = 1 << 20;
/// After failed evictions, the maximum duration of a search for blocks that became evictable.
pub(crate) const AGAIN_TIME: Duration = Duration::from_millis(10);

// The clock.

/// Eviction ends after this number of consecutive clock windows with refusals and no eviction
/// (zm-L3).
pub(crate) const REFUSED_WINDOWS_MAX: usize = 4;
/// Eviction ends after this number of rounds without an eviction, enough to cool hot blocks.
pub(crate) const ROUNDS_MAX: usize = HEAT_KEPT_MAX as usize + 2;
/// The number of counters of closings, each of which counts for several clock windows.
pub(crate) const CLOSINGS: usize = 64;

// The compressor thread.

/// Waiting copies use at most this share (1/64) of a limit.
pub(crate) const WAITING_SHARE: u64 = 64;
/// The maximum time to wait until a started thread runs. Until then, the kernel counts the thread,
/// but this crate does not.
pub(crate) const START_TIME: Duration = Duration::from_micros(200);
/// The number of attempts to start a thread that are skipped after the system refused one.
pub(crate) const REFUSED_STARTS: u32 = 1000;
/// The number of stored blocks after which the device's memory is measured.
pub(crate) const WEIGHED: usize = 16;
/// A compressor thread without work ends after this time, because a program may count its threads.
pub(crate) const IDLE_TIME: Duration = Duration::from_millis(50);
/// The request that the compressor thread end is repeated at this interval.
pub(crate) const END_TIME: Duration = Duration::from_millis(5);
/// The number of starts that are skipped after the thread was asked to end, because a program that
/// expects to be single-threaded may check the number of threads, as Python does after a fork.
pub(crate) const STARTS_AT_REST: u32 = 64;

// Limits.

/// The time for which faults and evictions are observed to find out whether the limit is too small
/// for the working set, in milliseconds.
pub(crate) const WATCHED_TIME: u64 = 5000;
/// The number of consecutive slow windows after which the working set counts as permanently larger
/// than the limit.
pub(crate) const SLOW_WINDOWS: u32 = 2;
/// A window is slow if faults take more than 1/`SLOW_SHARE` of its time.
pub(crate) const SLOW_SHARE: u32 = 2;
/// The share of refaults that a larger limit should prevent: nine in ten.
pub(crate) const PREVENTED_SHARE: (u64, u64) = (9, 10);
/// The bytes that the device needs in addition to its pages while it grows: the maps of a segment
/// and the objects of a clock window.
pub(crate) const GROWTH_BYTES: u64 = 256 << 10;
/// The reserve is at least this share (1/64) of the limit, because a step evicts many blocks.
pub(crate) const RESERVE_SHARE: u64 = 64;
/// Chunks are closed if tables use more than this share (1/16) of the limit.
pub(crate) const TABLES_SHARE: u64 = 16;
/// The maximum reserve in bytes for simultaneous faults. In practice, they never fill more.
pub(crate) const AT_ONCE_MAX: u64 = 1 << 20;
/// The floor is this share (1/64) of a limit.
pub(crate) const FLOOR_SHARE: u64 = 64;
/// The floor grows by this multiple of the unevictable bytes beyond the limit, because otherwise a
/// process would spend all of its time on compression.
pub(crate) const EXCESS_WEIGHT: u64 = 4;
/// The floor grows at most to this share (1/4) of the limit, divided by the number of large
/// processes that share the limit.
pub(crate) const OVER_LIMIT_FLOOR_SHARE: u64 = 4;
/// Room is tight if unevictable memory leaves less than this share (1/16) of the limit.
pub(crate) const TIGHT_SHARE: u64 = 16;
/// The minimum pause after an attempt that evicted nothing. Each further pause is twice as long as
/// the previous one.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The maximum pause, if an attempt takes little time.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(3200);
/// The first pause is at least this multiple of the time that the attempt took.
pub(crate) const WEIGHT_MIN: u32 = 8;
/// The maximum pause is at least this multiple of the time that the attempt took.
pub(crate) const WEIGHT_MAX: u32 = 128;
/// The number of times that the pause is doubled between the first and the longest pause.
pub(crate) const GROWTHS: u32 = 5;
/// After this number of consecutive attempts that evicted nothing, most of the memory is treated as
/// incompressible.
pub(crate) const BRAKED: u32 = 2;
/// If most blocks do not compress, a block that did not compress loses heat only in one of every
/// `SLOW_ROUNDS` rounds.
pub(crate) const SLOW_ROUNDS: u32 = 8;
/// If the new blocks exceed both this share (1/32) of the resident blocks and a batch, an attempt
/// is made even during a pause.
pub(crate) const NEW_SHARE: usize = 32;

// Mappings, descriptors and other threads.

/// The kernel's default for the maximum number of mappings, used if the setting can't be read.
pub(crate) const MAP_COUNT: usize = 65_530;
/// The number of page tables that a probe frees. Changes by other threads are small in comparison.
pub(crate) const TABLES: usize = 16;
/// A refused size is reported as too large from this number of bytes on.
pub(crate) const MANY: usize = 1 << 40;
/// The number of buckets of a histogram. The last bucket counts all times above 2^34 ns (17 s).
pub(crate) const BUCKETS: usize = 36;

/// The minimum size of a chunk in bytes: one page table maps this number of bytes.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
/// The maximum number of blocks that may each be a separate mapping under the kernel's default
/// setting.
pub(crate) const FEW_BLOCKS: usize = 8192;
/// The maximum number of blocks in probation. A larger number would not improve the selection of
/// blocks to evict.
pub(crate) const PROBATION_MAX: usize = 4096;
/// The minimum number of blocks in probation. With fewer, probation would end as soon as it begins.
pub(crate) const PROBATION_MIN: usize = 64;
/// The maximum number of windows of all regions together; each region has at least one window.
pub(crate) const REGIONS_MAX: usize = 128;
/// The maximum number of windows of an arena, not counting the first.
pub(crate) const WINDOWS_MAX: usize = 32;
/// The maximum number of attempts to open a file if other threads keep closing it.
pub(crate) const OPENINGS_MAX: usize = 16;
/// A high descriptor is one of the last `LAST_NUMBERS` descriptors below the process's limit or
/// `NUMBERS_MAX`, whichever is lower.
pub(crate) const LAST_NUMBERS: u64 = 32;
/// The upper bound of high descriptors. Larger numbers would need a larger table in the kernel.
pub(crate) const NUMBERS_MAX: u64 = 1024;
/// The maximum number of consecutive EAGAIN results of a request to a userfaultfd.
pub(crate) const TRIES_MAX: u32 = 10_000;
/// The maximum time for which a thread waits to enter the gate while a fork waits for threads
/// inside. A thread inside may wait for a lock of the program, for example the allocator's lock. If
/// the entering thread is in a signal handler, it may hold that lock, so after this time it enters
/// although the fork still waits.
pub(crate) const FORK_TIME: Duration = Duration::from_millis(20);
/// The number of faults for which a thread does not try to stop the world after an attempt failed.
/// If there are other threads, an attempt costs a system call or an unsuccessful wait.
pub(crate) const ASKED_LATER: u32 = 16;
/// The maximum of the number that begins at `ASKED_LATER` and doubles after each failed attempt.
pub(crate) const ASKED_LATER_MAX: u32 = 64;
/// The number of loads of a safepoint's word, some 25 ns each, before a waiting thread calls the
/// kernel. While `Safepoint::stop` waits for running threads to reach a safepoint, it loads the
/// word at most this number of times. Threads that fault often reach a safepoint at their next
/// fault.
pub(crate) const LOOKS: u32 = if cfg!(loom) { 1 } else { 20_000 };

/// The interval at which a thread that waits for a block checks whether the block was queued.
pub(crate) const HANDED_OVER: Duration = Duration::from_millis(1);
/// If no other thread is inside the gate, a copy of a process treats the owner of a `Busy` block as
/// missing after this number of consecutive checks.
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
        // Each buffer has 256 KiB. All buffers together may use 1/32 of the limit.
        assert_eq!([39, 40, 48].map(|mib| contexts(16, 0, Some(mib * MIB))), [4, 5, 6]);
        assert_eq!([143, 144, 152].map(|mib| contexts(16, 0, Some(mib * MIB))), [17, 18, 18]);
    }
}
