//! What the pool decides by: how much it keeps, when it works, how far it looks; each number with
//! its reason. Numbers go in and come out, so nothing here knows the pool.

use std::time::Duration;

/// Commits are dear, so this share of the pool's pages may be retained for the next objects, of
/// those that objects have left, until no one has asked for compaction for a moment ...
const RETAINED_SHARE: usize = 256;
/// ... and as many at any fill.
const RETAINED_MIN: usize = 8;
/// This share more may be prefaulted: with a quarter of it a quarter of the page faults are spared,
/// with it half of them ...
const PREFAULT_SHARE: usize = 32;
/// ... but no more than as many for each open class: about one for each that grows.
const PREFAULT_PER_CLASS: usize = 2;
/// Below so many pages, a pool has no use for a thread that prefaults.
const PREFAULT_POOL_MIN: usize = 256;
/// Most pages that a class wants at a time.
pub(crate) const WANTED_MAX: u8 = 32;
/// Pages prefaulted for each that was wanted: as fast as the class grew, it will have grown on.
pub(crate) const PREFAULT_AHEAD: u32 = 2;
/// Pages that a free gives back at most, where no thread keeps up with that: what it takes is
/// bounded, whatever the pool's size.
pub(crate) const PURGE_BY_FREE: usize = 32;
/// Zspages that are looked at for the emptiest that offers retained pages: what lies in fuller ones
/// is needed sooner.
pub(crate) const OFFERS_LOOKED_AT: usize = 8;
/// Zspages without objects that are looked at for one that was made in vain: those come first.
pub(crate) const UNUSED_LOOKED_AT: usize = 8;

/// Retained pages that may stay of those that objects have left, where `used` are in use.
fn left_max(used: usize) -> usize {
    (used / RETAINED_SHARE).max(RETAINED_MIN)
}

/// Returns the pages that may be retained: those, and the ones that were prefaulted and are not
/// taken yet.
pub(crate) fn retained_max(used: usize, prefaulted: usize) -> usize {
    left_max(used) + prefaulted
}

/// Returns the pages that are to go, if more are retained than may be: with them half of those that
/// may stay, since many at once are cheaper than one by one.
pub(crate) fn purge_target(used: usize, prefaulted: usize, retained: usize) -> Option<usize> {
    let most = retained_max(used, prefaulted);
    (retained > most).then(|| retained - most + left_max(used) / 2)
}

/// Returns whether a pool is large enough for a thread that prefaults.
pub(crate) fn prefaults(used: usize) -> bool {
    used >= PREFAULT_POOL_MIN
}

/// Returns whether one more page may be prefaulted, where so many are that no object has taken.
pub(crate) fn may_prefault(used: usize, prefaulted: usize, open_classes: usize) -> bool {
    prefaulted < (used / PREFAULT_SHARE).min(PREFAULT_PER_CLASS * open_classes)
}

/// The limit is near when so many pages are left: more than a step of a move takes.
const NEAR_LIMIT: usize = 64;
/// Pages given back, or a few more, for a store that meets the limit: enough for some stores, and
/// it waits for them.
pub(crate) const PURGE_AT_LIMIT: usize = 16;
/// How often a refused slot is tried for again, after pages were given back: others may be faster
/// each time, but hardly so often.
pub(crate) const ATTEMPTS: usize = 100;
/// Zspages looked at for a slot on committed pages, at the limit: before pages are given back for
/// it, which takes longer than this ...
pub(crate) const SCAN_FEW: usize = 32;
/// ... and where that helps no more, so that the class's lock is not held for a look at all.
pub(crate) const SCAN_MAX: usize = 256;

/// Returns whether so many pages in use are near the limit.
pub(crate) fn is_near(limit: Option<usize>, used: usize) -> bool {
    limit.is_some_and(|limit| used + NEAR_LIMIT >= limit)
}

/// Frees in a class after which it is asked whether it is worth compacting: a page's worth of
/// objects makes little difference.
pub(crate) const ASK_EVERY: u32 = 8;
/// Compaction begins in a class when moving could free more than this share of its pages ...
const BEGIN_SHARE: u32 = 32;
/// ... and more than this many: a move costs as much as it saves where there are fewer ...
const BEGIN_PAGES: u32 = 2;
/// ... and ends when it could free no more than this share, or one page. Far below where it begins,
/// so that it does not begin again at once.
const END_SHARE: u32 = 128;
/// Objects moved at most before the class's lock is dropped ...
const STEP: usize = 32;
/// ... and about so many bytes, so that a thread that waits for the lock waits no longer where
/// objects are large.
const STEP_BYTES: usize = STEP * 4096;
/// Zspages left alone at most, since all that is left in them is pinned, before a class is.
pub(crate) const SKIPPED_MAX: usize = 32;
/// Zspages of a fullness group that are looked at for the one to fill, or to empty: enough to keep
/// what manages them together.
pub(crate) const ALIKE_MAX: usize = 32;
/// How long no one has asked when the thread finishes the job: a burst of frees is over then.
pub(crate) const QUIET: Duration = Duration::from_millis(50);
/// When the thread has worked so long it sleeps: to be woken costs others time, so that is not done
/// more often ...
pub(crate) const WORK: Duration = Duration::from_millis(2);
/// ... this many times as long as it worked: it takes at most half a processor.
pub(crate) const REST: u32 = 1;
/// The shortest and the longest rest after a pass that could move nothing: what hindered it is
/// pinned, or at a limit, and mostly still is a moment later.
const FRUITLESS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(320));
/// Objects that lie in too coarse a class are looked for when the pool has grown by this part ...
const GROWN_SHARE: usize = 4;
/// ... and by this many pages: where there are fewer, little is gained.
const GROWN_MIN: usize = 64;

/// Returns whether compaction should begin in a class that has so many pages, and could free
/// `gain`.
pub(crate) fn should_begin(gain: u32, committed: u32) -> bool {
    gain > BEGIN_PAGES && gain > committed / BEGIN_SHARE
}

/// Returns whether it should go on there.
pub(crate) fn should_go_on(gain: u32, committed: u32) -> bool {
    gain > 1 && gain > committed / END_SHARE
}

/// Objects of `size` bytes moved at most before their class's lock is dropped.
pub(crate) fn step(size: usize) -> usize {
    (STEP_BYTES / size).clamp(1, STEP)
}

/// Returns the rest after a pass that could move nothing, after one of `last` before it.
pub(crate) fn rest_after(last: Duration) -> Duration {
    (last * 2).clamp(FRUITLESS.0, FRUITLESS.1)
}

/// Returns whether a pool of `used` pages has grown so far, since it had `refined`, that its
/// objects are to be looked at.
pub(crate) fn has_grown(used: usize, refined: usize) -> bool {
    used - refined > (refined / GROWN_SHARE).max(GROWN_MIN)
}

/// A plan is outdated when the pool's pages have changed by this share of what they were: what is
/// stored until then lies in classes that are a little too coarse, or too many ...
const CHANGE_SHARE: usize = 8;
/// ... and by this many, so that a pool of a few pages does not plan with each of them.
pub(crate) const CHANGE_MIN: usize = 4;
/// Where nothing is known, open classes are this share of their size apart.
const SPREAD_SHARE: usize = 8;
/// Bytes that an open class costs beside half of its last page: half of the header of its last
/// zspage.
const CLASS_BYTES: usize = 256;
/// A class without objects is taken for dearer by this share, so that classes do not come and go
/// for next to nothing.
const UNUSED_SHARE: i64 = 4;

/// Returns the pages by which a pool that has `used` may change before a plan for it is outdated.
pub(crate) fn plan_change(used: usize) -> usize {
    (used / CHANGE_SHARE).max(CHANGE_MIN)
}

/// Returns the smallest class that is opened above one of `bytes`, where nothing is known.
pub(crate) fn spread(bytes: usize) -> usize {
    bytes + bytes / SPREAD_SHARE
}

/// Returns the bytes that a class costs which has objects: half of its last page, and of a header.
pub(crate) fn class_cost(page_bytes: usize) -> i64 {
    (page_bytes / 2 + CLASS_BYTES) as i64
}

/// Returns the bytes that one is taken to cost which has none.
pub(crate) fn unused_class_cost(page_bytes: usize) -> i64 {
    class_cost(page_bytes) + class_cost(page_bytes) / UNUSED_SHARE
}

/// How soon the thread that prefaults looks again ...
const TICK: Duration = Duration::from_micros(500);
/// ... and twice as late each time that there is nothing to do, until there was nothing this often:
/// 64 ms.
pub(crate) const QUIET_TICKS: u32 = 7;
/// How long no one has asked, and nothing is left to do, when a thread ends.
pub(crate) const IDLE: Duration = Duration::from_secs(1);
/// Steps by which a thread is nicer than the one that started it: where all processors are busy, it
/// interrupts no thread that stores or reads, and still gets a tenth of one.
pub(crate) const NICENESS: i32 = 10;
/// After a panic no thread is started for this time, each time twice as long up to the second: what
/// went wrong goes wrong again, mostly, and is not to take a processor.
const RESTART: (Duration, Duration) = if cfg!(test) {
    (Duration::from_millis(20), Duration::from_millis(100))
} else {
    (Duration::from_secs(1), Duration::from_secs(60))
};

/// How long the thread that prefaults sleeps, which found nothing to do `quiet` times.
pub(crate) fn tick(quiet: u32) -> Duration {
    TICK * (1 << quiet)
}

/// How long no thread is started after the panic that came after `before` others.
pub(crate) fn restart_after(before: u32) -> Duration {
    RESTART.0.saturating_mul(1 << before.min(16)).min(RESTART.1)
}

/// Entries that are locked beside the one given out, when some are read in a row: while the next
/// object's bytes are fetched, the page table is walked for the one behind it.
pub(crate) const ENTRIES_AHEAD: usize = 2;
/// Lines of the next object that are fetched: all of a slot's. (Some processors go on by themselves
/// once they have seen a few of them read; others do not.)
pub(crate) const LINES_AHEAD: usize = 64;
/// Lines that are fetched of an object that is to be overwritten: all of a block's. The copy that
/// fills them is short, so it would be waited for at the next lock.
pub(crate) const LINES_OVERWRITTEN: usize = 64;
