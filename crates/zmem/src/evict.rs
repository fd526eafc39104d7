//! Chooses the blocks to evict. A clock puts cold blocks in probation. Blocks that are not accessed
//! in probation are stored on the device. All functions run under the eviction lock.
//!
//! ```text
//!   hand -> clock window: resident blocks without heat are closed -> queue of clock windows
//!                  the oldest clock window -> blocks still closed are stored and dropped
//! ```
//!
//! The only running thread of a process first evicts the blocks in probation. Then the thread
//! evicts the cold blocks of each clock window that the hand reaches, without probation (zm-A4).

use crate::clock::{Clock, Step};
use crate::counters::count;
use crate::limit::evictable;
use crate::owned::{for_owned, for_runs, publish_closed};
use crate::pager::Pager;
use crate::policy::{
    CLOCK_WINDOW, HEAT_KEPT_MAX, PROBATION_SHARE, REFUSED_WINDOWS_MAX, ROUNDS_MAX,
};
use crate::recent::Spares;
use crate::state::{State, WordValue};
use crate::{chunk, depart, evict_open, stored};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// The number of blocks to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// At least this number of blocks. All cold blocks of the last clock window are evicted, so the
    /// eviction may exceed this number.
    AtLeast(usize),
    /// At most this number of blocks.
    Exactly(usize),
}

/// Evicts the number of blocks that `goal` requires, or fewer if no more blocks can be evicted.
/// Returns the number of evicted blocks. `buf` has space for a batch.
pub(crate) fn evict(
    pager: &Pager,
    clock: &mut Clock,
    goal: Goal,
    spares: Spares,
    buf: &mut [u8],
) -> usize {
    if clock.has_ended || evictable::keeps_all(&pager.limit) {
        pager.limit.set_no_progress(true);
        return 0;
    }
    let (wanted, most) = match goal {
        Goal::AtLeast(blocks) => (blocks, usize::MAX),
        Goal::Exactly(blocks) => (blocks, blocks),
    };
    let (mut gone, mut idle, mut refusals) = (0, 0, 0);
    stored::drop_copies(pager);
    let stopped = pager.try_stop_world();
    let may_go = |block: usize, seen: WordValue| may_be_marked(pager, block, seen, spares);
    while gone < wanted && idle <= ROUNDS_MAX * clock.windows && refusals < REFUSED_WINDOWS_MAX {
        let refused = pager.counters.refused.load(Relaxed);
        let more = if let Some(stopped) = stopped.as_ref().filter(|_| clock.is_empty()) {
            let step = step(pager, clock, idle);
            idle += step.passed;
            let evict =
                |window| evict_open::evict_open(pager, window, most - gone, may_go, stopped, buf);
            step.window.map_or(0, evict)
        } else if stopped.is_none() && wants_marks(pager, clock, idle) {
            idle += advance(pager, clock, idle, may_go);
            continue;
        } else if let Some(window) = clock.pop() {
            let blocks = pager.blocks_of_window(window);
            let (more, is_done) = evict_marked(pager, blocks, most - gone, buf);
            if !is_done {
                clock.push_back(window);
                gone += more;
                // If some of these blocks could not be evicted, the other blocks of the clock
                // window are tried next.
                continue;
            }
            more
        } else {
            0
        };
        let has_no_progress = more == 0 && pager.counters.refused.load(Relaxed) > refused;
        refusals = if has_no_progress { refusals + 1 } else { 0 };
        idle = if more > 0 { 0 } else { idle };
        gone += more;
    }
    pager.weigh();
    pager.limit.set_no_progress(gone == 0);
    gone
}

/// Returns whether the hand should put more blocks in probation. Otherwise the blocks that have
/// been in probation longest are evicted next. After a round without an eviction, no more blocks
/// are put in probation until the queue is empty.
fn wants_marks(pager: &Pager, clock: &Clock, idle: usize) -> bool {
    let share = pager.limit.resident() / PROBATION_SHARE;
    let share =
        share.clamp(CLOCK_WINDOW.min(pager.mappings.probation_max), pager.mappings.probation_max);
    let is_short = pager.probation.load(Relaxed) < share && idle <= clock.windows;
    clock.is_empty() || (is_short && !clock.is_full())
}

/// Moves the hand past a clock window, and puts the clock window's cold blocks in probation. The
/// hand skips clock windows in closed chunks. Returns the number of clock windows that the hand
/// passed.
fn advance(
    pager: &Pager,
    clock: &mut Clock,
    idle: usize,
    may_go: impl Fn(usize, WordValue) -> bool,
) -> usize {
    let step = step(pager, clock, idle);
    if let Some(window) = step.window {
        let blocks = pager.blocks_of_window(window);
        if mark(pager, blocks.clone(), may_go) > 0 {
            clock.push(window);
        } else if pager.limit.has_many_tables() {
            // The chunks may now be closable, because the compressor thread may have stored blocks
            // of this clock window since the last round.
            chunk::close_chunks(pager, blocks);
        }
    }
    step.passed
}

/// Moves the hand past a clock window. `idle` is the number of clock windows that the hand has
/// passed since the last eviction.
fn step(pager: &Pager, clock: &mut Clock, idle: usize) -> Step {
    let has_no_progress = idle > clock.windows;
    let step = clock.step(has_no_progress, |window| chunk::next_open_window(pager, window));
    if step.is_round {
        pager.round.fetch_add(1, Relaxed);
    }
    let takes_shared = || evictable::may_evict_shared(&pager.limit, step.is_after_no_progress);
    if let Some(window) = step.window.filter(|_| takes_shared()) {
        chunk::unshare(pager, pager.blocks_of_window(window));
    }
    step
}

/// Evicts all blocks of a range that are not pinned, including hot blocks.
pub(crate) fn evict_range(pager: &Pager, blocks: Range<usize>, buf: &mut [u8]) {
    let _lock = pager.eviction_lock.lock();
    if evictable::keeps_all(&pager.limit) {
        return;
    }
    for start in blocks.clone().step_by(CLOCK_WINDOW) {
        let part = start..blocks.end.min(start + CLOCK_WINDOW);
        mark(pager, part.clone(), |_, seen| seen.is_evictable());
        evict_marked(pager, part, usize::MAX, buf);
    }
    pager.weigh();
}

/// Puts in probation each resident block for which `takes` returns true. Returns the number of
/// blocks that were put in probation.
fn mark(pager: &Pager, blocks: Range<usize>, takes: impl Fn(usize, WordValue) -> bool) -> usize {
    let mut marked = 0;
    let to = State::Probation;
    for_owned(pager, blocks, State::Resident, takes, |run| marked += publish_closed(run, to));
    count(&pager.counters.marked, marked);
    marked
}

/// Returns whether the clock is allowed to put a block, whose word is `seen`, in probation. A hot
/// block stays resident and loses one unit of heat. If `spares` is `Recent`, the blocks that were
/// filled last stay resident. If most blocks do not compress, a block that did not compress loses
/// heat only in some rounds.
fn may_be_marked(pager: &Pager, block: usize, seen: WordValue, spares: Spares) -> bool {
    if !seen.is_evictable() || (spares == Spares::Recent && pager.recent.has(block)) {
        return false;
    }
    if seen.heat() > HEAT_KEPT_MAX && pager.limit.no_progress.is_slow(pager.round.load(Relaxed)) {
        return false;
    }
    if seen.heat() > 0 {
        let cooler = |word: WordValue| word.with_heat(word.heat() - 1);
        let _touched = pager.words[block].try_change(seen, cooler);
        return false;
    }
    true
}

/// Evicts at most `most` of the blocks in probation among `blocks`. Returns the number of evicted
/// blocks, and whether none of `blocks` is still in probation.
fn evict_marked(pager: &Pager, blocks: Range<usize>, most: usize, buf: &mut [u8]) -> (usize, bool) {
    let (left, is_done) = (Cell::new(most), Cell::new(true));
    let begins = |block: usize| {
        let seen = pager.words[block].load();
        let is_marked = seen.state() == State::Probation;
        if is_marked && left.get() == 0 {
            is_done.set(false);
            return false;
        }
        let begins = is_marked && pager.words[block].try_begin_evicting(seen);
        left.set(left.get() - usize::from(begins));
        begins
    };
    let mut gone = 0;
    for_runs(blocks.clone(), pager.batch(), begins, |run| {
        pager.probation.fetch_sub(run.len(), Relaxed);
        gone += depart::evict_run(pager, run, buf);
    });
    if pager.limit.has_many_tables() {
        chunk::close_chunks(pager, blocks);
    }
    (gone, is_done.get())
}
