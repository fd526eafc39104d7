//! The thresholds of the pool's background work, each with its reason: how much it retains, when it
//! works, and how far it searches. The functions here get numbers and do not know the pool.

use std::time::Duration;

/// Committing a page is expensive, so pages without objects may be retained for the next objects
/// until the pool is idle: this share of the pages in use ...
const RETAINED_SHARE: usize = 256;
/// ... or this many, if that is more.
const RETAINED_MIN: usize = 8;
/// Prefaulted pages may be this share of the pages in use. This avoids half of the page faults; a
/// quarter of it would avoid a quarter of them ...
const PREFAULT_SHARE: usize = 32;
/// ... but at most this many for each open class, so about one for each class that grows.
const PREFAULT_PER_CLASS: usize = 2;
/// A pool of fewer pages does not prefault.
const PREFAULT_POOL_MIN: usize = 256;
/// The maximum number of pages that are counted as wanted by a class at a time.
pub(crate) const WANTED_MAX: u8 = 32;
/// The number of pages prefaulted for each wanted page, because the class keeps growing during the
/// prefault.
pub(crate) const PREFAULT_AHEAD: u32 = 2;
/// The maximum number of pages that a free releases if no background thread does, or does not keep
/// up. This bounds the time of a free, whatever the pool's size.
pub(crate) const PURGE_BY_FREE: usize = 32;
/// The maximum number of zspages that are searched for the emptiest that offers retained pages. The
/// pages of fuller ones are needed sooner.
pub(crate) const OFFERS_LOOKED_AT: usize = 8;
/// The maximum number of zspages without objects that are searched for one that never got a page.
pub(crate) const UNUSED_LOOKED_AT: usize = 8;

/// Returns the maximum number of retained pages that objects have left, if `used` pages are in use.
fn left_max(used: usize) -> usize {
    (used / RETAINED_SHARE).max(RETAINED_MIN)
}

/// Returns the number of pages that may be retained in all: those of [`left_max`], and the
/// prefaulted pages that no object has taken yet.
pub(crate) fn retained_max(used: usize, prefaulted: usize) -> usize {
    left_max(used) + prefaulted
}

/// Returns the number of pages to release if more are retained than allowed. These are the surplus
/// and half of the pages that may stay, because one release of many pages is cheaper than many of
/// one.
pub(crate) fn purge_target(used: usize, prefaulted: usize, retained: usize) -> Option<usize> {
    let most = retained_max(used, prefaulted);
    (retained > most).then(|| retained - most + left_max(used) / 2)
}

/// Returns whether a pool of `used` pages is large enough to prefault.
pub(crate) fn prefaults(used: usize) -> bool {
    used >= PREFAULT_POOL_MIN
}

/// Returns whether another page may be prefaulted if `prefaulted` pages already wait for objects.
pub(crate) fn may_prefault(used: usize, prefaulted: usize, open_classes: usize) -> bool {
    prefaulted < (used / PREFAULT_SHARE).min(PREFAULT_PER_CLASS * open_classes)
}

/// The limit is near when this many pages are left, which is more than one step of compaction
/// commits.
const NEAR_LIMIT: usize = 64;
/// The approximate number of pages that a store releases when it meets the limit: enough for
/// several stores, and few enough for the store to wait for.
pub(crate) const PURGE_AT_LIMIT: usize = 16;
/// The number of times that a store retries at the limit after pages were released. Other threads
/// may be faster each time, but hardly this often.
pub(crate) const ATTEMPTS: usize = 100;
/// The maximum number of zspages that a store at the limit searches for a slot on committed pages
/// before it releases pages, which takes longer than this search ...
pub(crate) const SCAN_FEW: usize = 32;
/// ... and when releasing does not help any more. The search is bounded because it holds the
/// class's lock.
pub(crate) const SCAN_MAX: usize = 256;

pub(crate) fn is_near(limit: Option<usize>, used: usize) -> bool {
    limit.is_some_and(|limit| used + NEAR_LIMIT >= limit)
}

/// A class is checked for compaction about once in this many frees. Fewer objects make little
/// difference.
pub(crate) const ASK_EVERY: u32 = 8;
/// Compaction begins in a class if moving could free more than this share of its pages ...
const BEGIN_SHARE: u32 = 32;
/// ... and more than this many pages: below that, moving costs as much as it saves ...
const BEGIN_PAGES: u32 = 2;
/// ... and ends if it could free no more than this share, or one page. The end is far below the
/// beginning, so that compaction does not begin again at once.
const END_SHARE: u32 = 128;
/// The maximum number of objects that are moved before the class's lock is dropped ...
const STEP: usize = 32;
/// ... and about the maximum number of bytes, so that large objects do not keep other threads
/// waiting for the lock longer.
const STEP_BYTES: usize = STEP * 4096;
/// The maximum number of zspages that compaction skips in a class, because all objects left in them
/// are pinned, before it proceeds to the next class.
pub(crate) const SKIPPED_MAX: usize = 32;
/// The maximum number of zspages of a fullness group that are searched for the one to fill or to
/// empty. This is enough for the headers of the remaining zspages to lie close together.
pub(crate) const ALIKE_MAX: usize = 32;
/// The compactor finishes its job if there was no request for this long, because then a burst of
/// frees is over.
pub(crate) const QUIET: Duration = Duration::from_millis(50);
/// The compactor sleeps after it has worked this long, and not more often, because each wake-up
/// interrupts other threads. It sleeps ...
pub(crate) const WORK: Duration = Duration::from_millis(2);
/// ... this many times as long as it has worked, so it takes at most half a processor.
pub(crate) const REST: u32 = 1;
/// The shortest and the longest rest after a pass that moved nothing. The cause (pins, a limit)
/// usually persists for a while.
const FRUITLESS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(320));
/// Objects in too coarse a class are searched for if the pool has grown by this share ...
const GROWN_SHARE: usize = 4;
/// ... and by this many pages. With fewer, little is gained.
const GROWN_MIN: usize = 64;

/// Returns whether compaction should begin in a class that has `committed` pages and could free
/// `gain` of them.
pub(crate) fn should_begin(gain: u32, committed: u32) -> bool {
    gain > BEGIN_PAGES && gain > committed / BEGIN_SHARE
}

/// Returns whether compaction that has begun in such a class should continue.
pub(crate) fn should_go_on(gain: u32, committed: u32) -> bool {
    gain > 1 && gain > committed / END_SHARE
}

/// Returns the number of objects of `size` bytes that may be moved before their class's lock is
/// dropped.
pub(crate) fn step(size: usize) -> usize {
    (STEP_BYTES / size).clamp(1, STEP)
}

/// Returns the rest after a pass that moved nothing; `last` is the rest before that pass.
pub(crate) fn rest_after(last: Duration) -> Duration {
    (last * 2).clamp(FRUITLESS.0, FRUITLESS.1)
}

/// Returns whether a pool of `used` pages should search for objects in too coarse a class. The pool
/// had `refined` pages at its last such search.
pub(crate) fn has_grown(used: usize, refined: usize) -> bool {
    used - refined > (refined / GROWN_SHARE).max(GROWN_MIN)
}

/// A plan is outdated if the number of the pool's pages has changed by this share. Until then a few
/// classes too many are open, or they are a little too coarse ...
const CHANGE_SHARE: usize = 8;
/// ... and by this many pages, so that a small pool does not make a plan for each page.
pub(crate) const CHANGE_MIN: usize = 4;
/// For sizes without objects, open classes are this share of their size apart.
const SPREAD_SHARE: usize = 8;
/// The bytes that an open class costs besides half of its last page: half of its last zspage's
/// header.
const CLASS_BYTES: usize = 256;
/// A class without pages is taken to cost this share more, so that classes are not opened and
/// closed for next to nothing.
const UNUSED_SHARE: i64 = 4;

/// Returns the number of pages by which a pool of `used` pages may change before its plan is
/// outdated.
pub(crate) fn plan_change(used: usize) -> usize {
    (used / CHANGE_SHARE).max(CHANGE_MIN)
}

/// Returns the minimum size of the next open class above one of `bytes`, for sizes without objects.
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

/// The time that the prefault thread sleeps between two checks for wanted pages. The sleep doubles
/// after each check that finds nothing ...
const TICK: Duration = Duration::from_micros(500);
/// ... until this many checks in a row found nothing. The last sleep is 64 ms.
pub(crate) const QUIET_TICKS: u32 = 7;
/// An idle background thread ends if there was no request for this long.
pub(crate) const IDLE: Duration = Duration::from_secs(1);
/// The niceness of a background thread relative to the thread that started it. If all processors
/// are busy, it then interrupts no thread that stores or reads, and gets a tenth of a processor.
pub(crate) const NICENESS: i32 = 10;
/// After a background thread has panicked, no thread is started for the first of these times, which
/// doubles with each panic up to the second. The next thread is likely to panic too, and must not
/// take up a processor.
const RESTART: (Duration, Duration) = if cfg!(test) {
    (Duration::from_millis(20), Duration::from_millis(100))
} else {
    (Duration::from_secs(1), Duration::from_secs(60))
};

/// Returns the time that the prefault thread sleeps after `quiet` checks in a row found nothing to
/// do.
pub(crate) fn tick(quiet: u32) -> Duration {
    TICK * (1 << quiet)
}

/// Returns the time for which no thread is started after a panic, if there were `before` panics
/// before it.
pub(crate) fn restart_after(before: u32) -> Duration {
    RESTART.0.saturating_mul(1 << before.min(16)).min(RESTART.1)
}

/// The number of entries that are locked ahead of the one being read. While the bytes of the next
/// object are fetched, the page table is walked for the one after it.
pub(crate) const ENTRIES_AHEAD: usize = 2;
/// The maximum number of cache lines of the next object that are prefetched: all lines of a slot.
/// (Some processors continue by themselves after a few lines; others do not.)
pub(crate) const LINES_AHEAD: usize = 64;
/// The maximum number of cache lines that are prefetched of an object that is to be overwritten:
/// all lines of a slot. The copy into them is short, so the next lock would wait for missing lines.
pub(crate) const LINES_OVERWRITTEN: usize = 64;
