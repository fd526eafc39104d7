//! Chooses the blocks to evict. A clock puts cold blocks in probation. Blocks
//! not accessed in probation are stored on the device. All functions are called under the store's
//! lock.
//!
//! ```text
//!   hand -> clock window: resident blocks without heat are closed -> queue of clock windows
//!                  the oldest clock window -> blocks still closed are stored and dropped
//! ```
//!
//! If only one thread is running, that thread first evicts the blocks in probation. Then it stores
//! and drops the cold blocks of each clock window as soon as the hand reaches the clock window
//! (zm-A4).

use crate::clock::{Clock, Step};
use crate::owned::{OwnedRun, for_owned};
use crate::pager::Pager;
use crate::policy::{CLOCK_WINDOW, HEAT_KEPT_MAX, PROBATION_SHARE};
use crate::recent::Spares;
use crate::state::{State, WordValue};
use crate::stats::count;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Eviction ends after this number of consecutive clock windows with refusals and no eviction
/// (zm-L3).
const VAIN_MAX: usize = 4;
/// Eviction ends after this number of rounds without an eviction, enough to cool hot blocks.
const ROUNDS_MAX: usize = HEAT_KEPT_MAX as usize + 2;

/// The number of blocks to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// At least this number. The last clock window is evicted whole: neighbours are evicted
    /// together.
    AtLeast(usize),
    /// At most this number.
    Exactly(usize),
}

impl Pager {
    /// Evicts the number of blocks that `goal` requires, or fewer if no more can be evicted, and
    /// returns their number. `buf` has room for a batch.
    pub(crate) fn evict(
        &self,
        clock: &mut Clock,
        goal: Goal,
        spares: Spares,
        buf: &mut [u8],
    ) -> usize {
        if clock.has_ended || self.limit.keeps_all() {
            self.limit.set_stuck(true);
            return 0;
        }
        let (wanted, most) = match goal {
            Goal::AtLeast(blocks) => (blocks, usize::MAX),
            Goal::Exactly(blocks) => (blocks, blocks),
        };
        let (mut gone, mut idle, mut vain) = (0, 0, 0);
        self.drop_copies();
        let alone = self.try_stop_world();
        while gone < wanted && idle <= ROUNDS_MAX * clock.windows && vain < VAIN_MAX {
            let refused = self.counters.refused.load(Relaxed);
            let more = if let Some(alone) = alone.as_ref().filter(|_| clock.is_empty()) {
                let step = self.step(clock, idle);
                idle += step.passed;
                let evict = |window| self.evict_open(window, most - gone, spares, alone, buf);
                step.window.map_or(0, evict)
            } else if alone.is_none() && self.wants_marks(clock, idle) {
                idle += self.advance(clock, idle, spares);
                continue;
            } else {
                let oldest = clock.pop();
                let evict =
                    |window| self.evict_marked(self.blocks_of_window(window), most - gone, buf);
                let (more, is_done) = oldest.map_or((0, true), evict);
                if let Some(window) = oldest.filter(|_| !is_done) {
                    clock.push_back(window);
                    gone += more;
                    // If these blocks were refused, the other blocks of the clock window are tried
                    // next.
                    continue;
                }
                more
            };
            let is_vain = more == 0 && self.counters.refused.load(Relaxed) > refused;
            vain = if is_vain { vain + 1 } else { 0 };
            idle = if more > 0 { 0 } else { idle };
            gone += more;
        }
        self.weigh();
        self.limit.set_stuck(gone == 0);
        gone
    }

    /// Returns whether the hand should put more blocks in probation before the oldest blocks are
    /// evicted. After a round without an eviction, the oldest blocks are evicted first. If the
    /// queue is empty, the hand proceeds until hot blocks have cooled.
    fn wants_marks(&self, clock: &Clock, idle: usize) -> bool {
        let share = self.limit.resident() / PROBATION_SHARE;
        let share = share.clamp(CLOCK_WINDOW.min(self.probation_max), self.probation_max);
        let is_short = self.probation.load(Relaxed) < share && idle <= clock.windows;
        clock.is_empty() || (is_short && !clock.is_full())
    }

    /// Moves the hand past a clock window, and puts its cold blocks in probation. Returns the
    /// number of clock windows that were passed: a run of clock windows in closed chunks is passed
    /// at once.
    fn advance(&self, clock: &mut Clock, idle: usize, spares: Spares) -> usize {
        let step = self.step(clock, idle);
        let takes = |block: usize, seen: WordValue| self.may_be_marked(block, seen, spares);
        let marked =
            step.window.filter(|window| self.mark(self.blocks_of_window(*window), takes) > 0);
        match (marked, step.window) {
            (Some(window), _) => clock.push(window),
            // Queued blocks of the clock window may have been stored since the last visit.
            (None, Some(window)) if self.limit.has_many_tables() => {
                self.close_chunks(self.blocks_of_window(window));
            }
            _ => {}
        }
        step.passed
    }

    /// Moves the hand past a clock window. `idle` clock windows were passed since the last
    /// eviction.
    fn step(&self, clock: &mut Clock, idle: usize) -> Step {
        let is_vain = idle > clock.windows;
        let step = clock.step(is_vain, |window| self.next_open_window(window));
        if step.is_round {
            self.round.fetch_add(1, Relaxed);
        }
        let takes_shared = || self.limit.may_go_shared(step.is_after_vain);
        if let Some(window) = step.window.filter(|_| takes_shared()) {
            self.unshare(self.blocks_of_window(window));
        }
        step
    }

    pub(crate) fn blocks_of_window(&self, window: usize) -> Range<usize> {
        window * CLOCK_WINDOW..((window + 1) * CLOCK_WINDOW).min(self.blocks())
    }

    /// Evicts the blocks of a range that are not pinned, including hot ones.
    pub(crate) fn evict_range(&self, blocks: Range<usize>, buf: &mut [u8]) {
        let _lock = self.eviction_lock.lock();
        if self.limit.keeps_all() {
            return;
        }
        for start in blocks.clone().step_by(CLOCK_WINDOW) {
            let part = start..blocks.end.min(start + CLOCK_WINDOW);
            self.mark(part.clone(), |_, seen| seen.is_evictable());
            self.evict_marked(part, usize::MAX, buf);
        }
        self.weigh();
    }

    /// Puts all blocks for which `takes` returns true in probation. Returns their number.
    fn mark(&self, blocks: Range<usize>, takes: impl Fn(usize, WordValue) -> bool) -> usize {
        let mut marked = 0;
        let to = State::Probation;
        for_owned(self, blocks, State::Resident, takes, |run| marked += self.close(run, to));
        count(&self.counters.marked, marked);
        marked
    }

    /// Closes owned blocks, and publishes them as in probation or shared. Returns their number. If
    /// the kernel refuses a run because some blocks are locked, the run's blocks are closed one by
    /// one, unless `to` is `Shared`.
    pub(crate) fn close(&self, mut run: OwnedRun<'_>, to: State) -> usize {
        let marked = run.len();
        match run.close() {
            Ok(()) => {
                run.publish(to, |_, word| word);
                marked
            }
            Err(_) if marked > 1 && to != State::Shared => {
                let single = std::iter::from_fn(|| run.split_first());
                single.map(|block| self.close(block, to)).sum()
            }
            Err(_) => {
                run.release();
                0
            }
        }
    }

    /// Returns whether the hand may mark a block whose word is `seen`. A hot block is not marked,
    /// but its heat is reduced. Recent blocks are not marked if `spares` is `Recent`. A block that
    /// did not compress cools slowly if most blocks do not compress.
    pub(crate) fn may_be_marked(&self, block: usize, seen: WordValue, spares: Spares) -> bool {
        if !seen.is_evictable() || (spares == Spares::Recent && self.recent.has(block)) {
            return false;
        }
        if seen.heat() > HEAT_KEPT_MAX && self.limit.stuck.is_slow(self.round.load(Relaxed)) {
            return false;
        }
        if seen.heat() > 0 {
            let cooler = |word: WordValue| word.with_heat(word.heat() - 1);
            let _touched = self.words[block].try_change(seen, cooler);
            return false;
        }
        true
    }

    /// Calls `takes` for each block, and `work` for each run of neighbours for which `takes`
    /// returned true. A run has at most `longest` blocks.
    pub(crate) fn for_runs(
        &self,
        blocks: Range<usize>,
        longest: usize,
        takes: impl Fn(usize) -> bool,
        mut work: impl FnMut(Range<usize>),
    ) {
        let mut start = blocks.start;
        while start < blocks.end {
            let end = blocks.end.min(start.saturating_add(longest));
            let taken = (start..end).take_while(|&block| takes(block)).count();
            if taken > 0 {
                work(start..start + taken);
            }
            // The block that ended the run was not taken. The next run begins after it.
            start += taken + usize::from(start + taken < end);
        }
    }

    /// Evicts up to `most` of the blocks in `blocks` that are in probation. Returns the number of
    /// evicted blocks, and whether no block in probation is left.
    fn evict_marked(&self, blocks: Range<usize>, most: usize, buf: &mut [u8]) -> (usize, bool) {
        let (left, is_done) = (Cell::new(most), Cell::new(true));
        let begins = |block: usize| {
            let seen = self.words[block].load();
            let is_marked = seen.state() == State::Probation;
            if is_marked && left.get() == 0 {
                is_done.set(false);
                return false;
            }
            let begins = is_marked && self.words[block].try_begin_evicting(seen);
            left.set(left.get() - usize::from(begins));
            begins
        };
        let mut gone = 0;
        self.for_runs(blocks.clone(), self.batch(), begins, |run| {
            self.probation.fetch_sub(run.len(), Relaxed);
            gone += self.evict_run(run, buf);
        });
        if self.limit.has_many_tables() {
            self.close_chunks(blocks);
        }
        (gone, is_done.get())
    }
}
