//! The thresholds of a pool, each with its reason. The thresholds determine how many pages are
//! retained, when background threads work, and how many zspages are searched. The functions of this
//! module depend only on their arguments, not on the pool. The table of entries and the caches of
//! metadata have their own thresholds.

use crate::geometry::OBJECTS_MAX;
use std::time::Duration;

/// A pool retains at most one page per this number of pages in use, or `RETAINED_MIN` pages if that
/// is more. Pages without objects are retained until the pool is idle, because committing a page is
/// expensive.
const RETAINED_SHARE: usize = 256;
/// The number of pages that a pool of any size is allowed to retain.
const RETAINED_MIN: usize = 8;
/// At most one page per this number of pages in use is prefaulted. This share avoids half of the
/// page faults. A quarter of this share would avoid a quarter of the faults.
const PREFAULT_SHARE: usize = 32;
/// At most this number of pages per open class are prefaulted, which is about one page for each
/// class that grows.
const PREFAULT_PER_CLASS: usize = 2;
/// A pool prefaults only if it uses at least this number of pages.
const PREFAULT_POOL_MIN: usize = 256;
/// The maximum number of pages that a class requests at a time.
pub(crate) const WANTED_MAX: u8 = 32;
/// The number of pages prefaulted for each requested page. The number is above 1 because the class
/// keeps growing during the prefault.
pub(crate) const PREFAULT_AHEAD: u32 = 2;
/// The maximum number of pages that a free of an object releases. The maximum bounds the duration
/// of a free in a pool of any size. A free releases pages only if no background thread exists or
/// the thread is too slow.
pub(crate) const PURGE_BY_FREE: usize = 32;
/// The maximum number of zspages with retained pages that are searched for the emptiest zspage.
/// Retained pages of fuller zspages are needed sooner.
pub(crate) const OFFERS_LOOKED_AT: usize = 8;
/// The maximum number of zspages without objects that are searched for a zspage that has no
/// committed page.
pub(crate) const UNUSED_LOOKED_AT: usize = 8;

/// Returns the maximum number of retained pages, without prefaulted pages, in a pool that uses
/// `used` pages.
fn left_max(used: usize) -> usize {
    (used / RETAINED_SHARE).max(RETAINED_MIN)
}

/// Returns the maximum number of retained pages, which is [`left_max`] plus the number of
/// prefaulted pages that no object uses yet.
pub(crate) fn retained_max(used: usize, prefaulted: usize) -> usize {
    left_max(used) + prefaulted
}

/// Returns the number of pages to release, if more pages are retained than allowed. The number is
/// the surplus plus half of [`left_max`], because one release of many pages is cheaper than many
/// releases of one page.
pub(crate) fn purge_target(used: usize, prefaulted: usize, retained: usize) -> Option<usize> {
    let most = retained_max(used, prefaulted);
    (retained > most).then(|| retained - most + left_max(used) / 2)
}

/// Returns whether a pool of `used` pages is large enough to prefault.
pub(crate) fn prefaults(used: usize) -> bool {
    used >= PREFAULT_POOL_MIN
}

/// Returns whether the pool is allowed to prefault another page, in addition to `prefaulted` pages
/// that no object uses yet.
pub(crate) fn may_prefault(used: usize, prefaulted: usize, open_classes: usize) -> bool {
    prefaulted < (used / PREFAULT_SHARE).min(PREFAULT_PER_CLASS * open_classes)
}

/// A pool is near its limit if it can commit at most this number of further pages. One step of
/// compaction commits fewer pages than this number.
const NEAR_LIMIT: usize = 64;
/// The approximate number of pages that a store releases at the limit. This number is enough for
/// several stores, and the release takes a short time.
pub(crate) const PURGE_AT_LIMIT: usize = 16;
/// The maximum number of times that a store retries at the limit after pages were released. Other
/// threads can take the released pages first, but are unlikely to do so this number of times.
pub(crate) const ATTEMPTS: usize = 100;
/// The maximum number of zspages that a store at the limit searches for a slot on committed pages
/// before it releases pages. The release takes longer than this search.
pub(crate) const SCAN_FEW: usize = 32;
/// The maximum number of zspages that a store at the limit searches for a slot on committed pages
/// if no more pages can be released. The search is bounded because the thread holds the class's
/// lock.
pub(crate) const SCAN_MAX: usize = 256;

pub(crate) fn is_near(limit: Option<usize>, used: usize) -> bool {
    limit.is_some_and(|limit| used + NEAR_LIMIT >= limit)
}

/// The numbers of slots for which headers are created. Each number has its own cache of headers. A
/// header is at most about twice as large as necessary. Only pages of 64 KiB need the last two
/// numbers.
pub(crate) const HEADER_SLOTS: [usize; 9] = [8, 16, 32, 64, 160, 256, 512, 1024, OBJECTS_MAX];

/// The approximate number of frees in a class between two checks whether the class needs
/// compaction. Fewer frees change little.
pub(crate) const ASK_EVERY: u32 = 8;
/// Compaction begins in a class only if it could free more than one in this number of the class's
/// pages.
const BEGIN_SHARE: u32 = 32;
/// Compaction begins in a class only if it could free more than this number of pages. For fewer
/// pages, the moves of objects would cost as much as the freed pages save.
const BEGIN_PAGES: u32 = 2;
/// Compaction of a class ends if it could free at most one in this number of the class's pages, or
/// only one page. This share is far below `BEGIN_SHARE`, so that compaction does not begin again
/// immediately.
const END_SHARE: u32 = 128;
/// The maximum number of objects that are moved before their class's lock is dropped.
const STEP: usize = 32;
/// The approximate maximum number of bytes that are moved before their class's lock is dropped. So
/// the lock is not held longer for large objects.
const STEP_BYTES: usize = STEP * 4096;
/// The maximum number of zspages that compaction skips in a class before it proceeds to the next
/// class. A zspage is skipped if all objects left in it are pinned.
pub(crate) const SKIPPED_MAX: usize = 32;
/// The maximum number of zspages of a fullness group that are searched for the zspage to fill or to
/// empty. This number is enough to keep the headers of the remaining zspages close together.
pub(crate) const ALIKE_MAX: usize = 32;
/// After this time without a request, the compactor makes its last pass, because a burst of frees
/// is likely to be over.
pub(crate) const QUIET: Duration = Duration::from_millis(50);
/// The time that the compactor works before it sleeps. The compactor does not sleep more often,
/// because each wake-up interrupts other threads.
pub(crate) const WORK: Duration = Duration::from_millis(2);
/// The compactor sleeps for this multiple of the time worked, so it uses at most half of a
/// processor.
pub(crate) const REST: u32 = 1;
/// The shortest and the longest sleep of the compactor after a pass that moved no object. The
/// cause, such as a pin or a limit, usually persists for a while.
const FRUITLESS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(320));
/// A pool searches for objects in classes that are too coarse only after it has grown by more than
/// its earlier size divided by this number.
const GROWN_SHARE: usize = 4;
/// A pool searches for objects in classes that are too coarse only if it has grown by more than
/// this number of pages. After less growth, little memory would be freed.
const GROWN_MIN: usize = 64;

/// Returns whether compaction should begin in a class that has `committed` pages and could free
/// `gain` of them.
pub(crate) fn should_begin(gain: u32, committed: u32) -> bool {
    gain > BEGIN_PAGES && gain > committed / BEGIN_SHARE
}

/// Returns whether compaction should continue in a class that has `committed` pages and could free
/// `gain` of them.
pub(crate) fn should_go_on(gain: u32, committed: u32) -> bool {
    gain > 1 && gain > committed / END_SHARE
}

/// Returns the number of objects of `size` bytes that a mover is allowed to move before it drops
/// the class's lock.
pub(crate) fn step(size: usize) -> usize {
    (STEP_BYTES / size).clamp(1, STEP)
}

/// Returns the time that the compactor sleeps after a pass that moved no object. `last` is the time
/// that the compactor slept before that pass.
pub(crate) fn rest_after(last: Duration) -> Duration {
    (last * 2).clamp(FRUITLESS.0, FRUITLESS.1)
}

/// Returns whether a pool of `used` pages should search for objects in classes that are too coarse.
/// The pool had `refined` pages at its last search for such objects.
pub(crate) fn has_grown(used: usize, refined: usize) -> bool {
    used - refined > (refined / GROWN_SHARE).max(GROWN_MIN)
}

/// A plan is outdated only if the number of the pool's pages has changed by more than one page per
/// this number of pages. After a smaller change, the plan has only slightly too many or too few
/// open classes.
const CHANGE_SHARE: usize = 8;
/// A plan is outdated only if the number of the pool's pages has changed by more than this number.
/// So a small pool does not compute a plan for each new page.
pub(crate) const CHANGE_MIN: usize = 4;
/// For sizes without objects, the distance between open classes is their size divided by this
/// number.
const SPREAD_SHARE: usize = 8;
/// The cost of an open class is half of its last page, plus this number of bytes for half of its
/// last zspage's header.
const CLASS_BYTES: usize = 256;
/// The cost of a class without pages is raised by the cost divided by this number. So classes are
/// not opened and closed for very small savings.
const UNUSED_SHARE: i64 = 4;

/// Returns the number of pages by which a pool of `used` pages can change before its plan is
/// outdated.
pub(crate) fn plan_change(used: usize) -> usize {
    (used / CHANGE_SHARE).max(CHANGE_MIN)
}

/// Returns the minimum size of the open class that follows an open class of `bytes` bytes, for
/// sizes without objects.
pub(crate) fn spread(bytes: usize) -> usize {
    bytes + bytes / SPREAD_SHARE
}

/// Returns the cost in bytes of a class that has pages: half a page, and half a header.
pub(crate) fn class_cost(page_bytes: usize) -> i64 {
    (page_bytes / 2 + CLASS_BYTES) as i64
}

pub(crate) fn unused_class_cost(page_bytes: usize) -> i64 {
    class_cost(page_bytes) + class_cost(page_bytes) / UNUSED_SHARE
}

/// The time that the prefault thread sleeps between two checks for requested pages. The time
/// doubles after each check that finds no request, up to `QUIET_TICKS` times.
const TICK: Duration = Duration::from_micros(500);
/// After this number of consecutive checks without a request, the prefault thread stops its checks.
/// The last sleep between two checks lasts 64 ms.
pub(crate) const QUIET_TICKS: u32 = 7;
/// The time without a request after which a background thread ends.
pub(crate) const IDLE: Duration = Duration::from_secs(1);
/// The niceness of a background thread relative to the thread that started it. If all processors
/// are busy, the background thread gets a tenth of a processor. So threads that store or read are
/// hardly delayed by the background thread.
pub(crate) const NICENESS: i32 = 10;
/// The size of a background thread's stack in bytes. A plan takes 30 KiB of the stack. The default
/// size would take more of the address space, which may be limited.
pub(crate) const THREAD_STACK: usize = 512 << 10;
/// The first and the longest time for which no thread is started after a background thread has
/// panicked. The time doubles with each panic. Without this delay, threads that panic again would
/// occupy a processor.
const RESTART: (Duration, Duration) = if cfg!(test) {
    (Duration::from_millis(20), Duration::from_millis(100))
} else {
    (Duration::from_secs(1), Duration::from_secs(60))
};

/// Returns the time that the prefault thread sleeps after `quiet` consecutive checks found no
/// request.
pub(crate) fn tick(quiet: u32) -> Duration {
    TICK * (1 << quiet)
}

/// Returns the time for which no thread is started after a panic, if `before` panics preceded this
/// panic.
pub(crate) fn restart_after(before: u32) -> Duration {
    RESTART.0.saturating_mul(1 << before.min(16)).min(RESTART.1)
}

/// The number of entries that are locked ahead of the entry that is read. While the bytes of the
/// next object are fetched, the processor walks the page table for the object after it.
pub(crate) const ENTRIES_AHEAD: usize = 2;
/// The maximum number of cache lines of the next object that are prefetched: all lines of a slot.
/// After a few prefetched lines, some processors prefetch the next lines without a request, but
/// other processors do not.
pub(crate) const LINES_AHEAD: usize = 64;
/// The maximum number of cache lines of an object that are prefetched before it is overwritten: all
/// lines of a slot. Without the prefetch, the copying thread would wait for missing lines while it
/// holds the class's lock.
pub(crate) const LINES_OVERWRITTEN: usize = 64;

/// The number of stripes of the counts of readers. Threads of different stripes write to different
/// cache lines, and the stripes of a pool take 2 KiB.
pub(crate) const EPOCH_STRIPES: usize = if cfg!(loom) { 2 } else { 16 };

/// The maximum number of handles in a report of objects that were never freed. A few handles
/// suffice to find the code that forgets to free objects, and a longer line would be hard to read.
pub(crate) const LEAKS_SHOWN: usize = 8;
