//! Chooses the blocks to evict. A clock over pieces puts cold blocks in probation. Blocks not
//! accessed in probation are stored on the device. All functions are called under the store's lock.
//!
//! ```text
//!   hand -> piece: resident blocks without heat are closed -> queue of pieces
//!                                  the oldest piece -> blocks still closed are stored and dropped
//! ```
//!
//! If only one thread is running, that thread first evicts the blocks in probation. Then it stores
//! and drops the cold blocks of each piece as soon as the hand reaches the piece (zm-A4).

use crate::clock::{Evictor, Step};
use crate::owned::{OwnedRun, for_owned};
use crate::pager::Pager;
use crate::policy::{HEAT_KEPT_MAX, PIECE, PROBATION_SHARE};
use crate::recent::Spares;
use crate::state::{Seen, State};
use crate::stats::count;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Eviction ends after this number of consecutive pieces with refusals and no eviction (zm-L3).
const VAIN_MAX: usize = 4;
/// Eviction ends after this number of rounds without an eviction, enough to cool hot blocks.
const ROUNDS_MAX: usize = HEAT_KEPT_MAX as usize + 2;

/// The number of blocks to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// At least this number. The last piece is evicted whole: neighbours are evicted together.
    AtLeast(usize),
    /// At most this number.
    Exactly(usize),
}

impl Pager {
    /// Evicts the number of blocks that `goal` requires, or fewer if no more can be evicted, and
    /// returns their number. `buf` has room for a batch.
    pub(crate) fn evict(
        &self,
        evictor: &mut Evictor,
        goal: Goal,
        spares: Spares,
        buf: &mut [u8],
    ) -> usize {
        if evictor.has_ended || self.limit.keeps_all() {
            self.limit.set_stuck(true);
            return 0;
        }
        let (wanted, most) = match goal {
            Goal::AtLeast(blocks) => (blocks, usize::MAX),
            Goal::Exactly(blocks) => (blocks, blocks),
        };
        let (mut gone, mut idle, mut vain) = (0, 0, 0);
        self.drop_copies();
        let alone = self.alone();
        while gone < wanted && idle <= ROUNDS_MAX * evictor.pieces && vain < VAIN_MAX {
            let refused = self.counters.refused.load(Relaxed);
            let more = if let Some(alone) = alone.as_ref().filter(|_| evictor.is_empty()) {
                let step = self.step(evictor, idle);
                idle += step.passed;
                let evict = |piece| self.evict_open(piece, most - gone, spares, alone, buf);
                step.piece.map_or(0, evict)
            } else if alone.is_none() && self.wants_marks(evictor, idle) {
                idle += self.advance(evictor, idle, spares);
                continue;
            } else {
                let oldest = evictor.pop();
                let evict = |piece| self.evict_marked(self.blocks_of(piece), most - gone, buf);
                let (more, is_done) = oldest.map_or((0, true), evict);
                if let Some(piece) = oldest.filter(|_| !is_done) {
                    evictor.push_back(piece);
                    gone += more;
                    // If these blocks were refused, the other blocks of the piece are tried next.
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
    fn wants_marks(&self, evictor: &Evictor, idle: usize) -> bool {
        let share = self.limit.resident() / PROBATION_SHARE;
        let share = share.clamp(PIECE.min(self.probation_max), self.probation_max);
        let is_short = self.probation.load(Relaxed) < share && idle <= evictor.pieces;
        evictor.is_empty() || (is_short && !evictor.is_full())
    }

    /// Moves the hand past a piece, and puts its cold blocks in probation. Returns the number of
    /// pieces that were passed: a run of pieces in closed chunks is passed at once.
    fn advance(&self, evictor: &mut Evictor, idle: usize, spares: Spares) -> usize {
        let step = self.step(evictor, idle);
        let takes = |block: usize, seen: Seen| self.may_be_marked(block, seen, spares);
        let marked = step.piece.filter(|piece| self.mark(self.blocks_of(*piece), takes) > 0);
        match (marked, step.piece) {
            (Some(piece), _) => evictor.push(piece),
            // Queued blocks of the piece may have been stored since the last visit.
            (None, Some(piece)) if self.limit.has_many_tables() => {
                self.close_chunks(self.blocks_of(piece));
            }
            _ => {}
        }
        step.passed
    }

    /// Moves the hand past a piece. `idle` pieces were passed since the last eviction.
    fn step(&self, evictor: &mut Evictor, idle: usize) -> Step {
        let is_vain = idle > evictor.pieces;
        let step = evictor.step(is_vain, |piece| self.next_open_piece(piece));
        if step.is_round {
            self.round.fetch_add(1, Relaxed);
        }
        let takes_shared = || self.limit.may_go_shared(step.is_after_vain);
        if let Some(piece) = step.piece.filter(|_| takes_shared()) {
            self.unshare(self.blocks_of(piece));
        }
        step
    }

    pub(crate) fn blocks_of(&self, piece: usize) -> Range<usize> {
        piece * PIECE..((piece + 1) * PIECE).min(self.blocks())
    }

    /// Evicts the blocks of a range that are not pinned, including hot ones.
    pub(crate) fn evict_range(&self, blocks: Range<usize>, buf: &mut [u8]) {
        let _evictor = self.evictor.lock();
        if self.limit.keeps_all() {
            return;
        }
        for start in blocks.clone().step_by(PIECE) {
            let part = start..blocks.end.min(start + PIECE);
            self.mark(part.clone(), |_, seen| seen.is_evictable());
            self.evict_marked(part, usize::MAX, buf);
        }
        self.weigh();
    }

    /// Puts all blocks for which `takes` returns true in probation. Returns their number.
    fn mark(&self, blocks: Range<usize>, takes: impl Fn(usize, Seen) -> bool) -> usize {
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
    pub(crate) fn may_be_marked(&self, block: usize, seen: Seen, spares: Spares) -> bool {
        if !seen.is_evictable() || (spares == Spares::Recent && self.recent.has(block)) {
            return false;
        }
        if seen.heat() > HEAT_KEPT_MAX && self.limit.stuck.is_slow(self.round.load(Relaxed)) {
            return false;
        }
        if seen.heat() > 0 {
            let cooler = |word: Seen| word.with_heat(word.heat() - 1);
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
