//! Chooses the blocks to evict: a clock over pieces puts cold blocks in probation, and those that
//! nobody touches there go to the device. All under the store's lock.
//!
//! ```text
//!   hand -> piece: resident blocks without heat are closed -> queue of pieces
//!                                  the oldest piece -> blocks still closed are stored and dropped
//! ```
//!
//! A thread that is alone stores and drops the blocks of a piece as the hand comes to it (zm-A4),
//! once those in probation are gone.

use crate::clock::{Evictor, Step};
use crate::pager::Pager;
use crate::policy::{HEAT_KEPT_MAX, PIECE, PROBATION_SHARE};
use crate::recent::Spares;
use crate::state::State;
use crate::stats::count;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Eviction ends once all blocks of this many pieces in a row were refused (zm-L3).
const VAIN_MAX: usize = 4;
/// Eviction ends once the hand has gone round this often in vain: touched blocks have cooled then.
const ROUNDS_MAX: usize = HEAT_KEPT_MAX as usize + 2;

/// How many blocks are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// As many, and the rest of the last piece, so that neighbours go together.
    AtLeast(usize),
    /// As many, and no more.
    Exactly(usize),
}

impl Pager {
    /// Evicts as many blocks as `goal` says, or fewer if no more can go, and returns how many.
    /// `buf` has room for a batch.
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
            Goal::AtLeast(units) => (units, usize::MAX),
            Goal::Exactly(units) => (units, units),
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
                let evict = |piece| self.evict_marked(self.units_of(piece), most - gone, buf);
                let (more, is_done) = oldest.map_or((0, true), evict);
                if let Some(piece) = oldest.filter(|_| !is_done) {
                    evictor.push_back(piece);
                    gone += more;
                    // Where those of it that were tried were refused, the others are next.
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

    /// Returns whether the hand should put more blocks in probation before the oldest ones go.
    /// After a round in vain they go; but if there are none, the hand goes on until hot blocks have
    /// cooled.
    fn wants_marks(&self, evictor: &Evictor, idle: usize) -> bool {
        let share = self.limit.resident() / PROBATION_SHARE;
        let share = share.clamp(PIECE.min(self.probation_max), self.probation_max);
        let is_short = self.probation.load(Relaxed) < share && idle <= evictor.pieces;
        evictor.is_empty() || (is_short && !evictor.is_full())
    }

    /// Moves the hand past a piece, and puts the cold blocks of that piece in probation. Returns
    /// how many pieces it passed: those of closed chunks are passed at once.
    fn advance(&self, evictor: &mut Evictor, idle: usize, spares: Spares) -> usize {
        let step = self.step(evictor, idle);
        let takes = |unit: usize| self.may_be_marked(unit, spares);
        let marked = step.piece.filter(|piece| self.mark(self.units_of(*piece), takes) > 0);
        match (marked, step.piece) {
            (Some(piece), _) => evictor.push(piece),
            // What was handed over when it was last looked at may be stored by now.
            (None, Some(piece)) if self.limit.has_many_tables() => {
                self.close_chunks(self.units_of(piece));
            }
            _ => {}
        }
        step.passed
    }

    /// Moves the hand past a piece. It passed `idle` in vain before.
    fn step(&self, evictor: &mut Evictor, idle: usize) -> Step {
        let is_vain = idle > evictor.pieces;
        let step = evictor.step(is_vain, |piece| self.next_open_piece(piece));
        if step.is_round {
            self.round.fetch_add(1, Relaxed);
        }
        let takes_shared = || self.limit.may_go_shared(step.is_after_vain);
        if let Some(piece) = step.piece.filter(|_| takes_shared()) {
            self.unshare(self.units_of(piece));
        }
        step
    }

    /// Returns the blocks of a piece.
    pub(crate) fn units_of(&self, piece: usize) -> Range<usize> {
        piece * PIECE..((piece + 1) * PIECE).min(self.units())
    }

    /// Evicts the blocks of a range that are not pinned, hot ones too.
    pub(crate) fn evict_range(&self, units: Range<usize>, buf: &mut [u8]) {
        let _evictor = self.evictor.lock();
        if self.limit.keeps_all() {
            return;
        }
        let cools = |unit: usize| self.try_own_unpinned(unit);
        for start in units.clone().step_by(PIECE) {
            let part = start..units.end.min(start + PIECE);
            self.mark(part.clone(), cools);
            self.evict_marked(part, usize::MAX, buf);
        }
        self.weigh();
    }

    /// Takes ownership of a block that is resident and not pinned, and returns whether it did.
    pub(crate) fn try_own_unpinned(&self, unit: usize) -> bool {
        let word = &self.words[unit];
        let seen = word.load();
        seen.state() == State::Resident && seen.pins() == 0 && word.try_own(seen)
    }

    /// Puts those of the blocks in probation for which `takes` takes ownership. Returns how many.
    fn mark(&self, units: Range<usize>, takes: impl Fn(usize) -> bool) -> usize {
        let mut marked = 0;
        let to = State::Probation;
        self.for_runs(units, usize::MAX, takes, |run| marked += self.close(run, to));
        count(&self.counters.marked, marked);
        marked
    }

    /// Closes blocks that the caller owns, which are in probation then, or shared. Returns how
    /// many. Where the system refuses some, as they are locked, the others go.
    pub(crate) fn close(&self, run: Range<usize>, to: State) -> usize {
        self.note_closing(&run);
        let closed = self.backend.close(&self.memory, self.bytes_of(run.clone()));
        if closed.is_err() && run.len() > 1 && to != State::Shared {
            return run.map(|unit| self.close(unit..unit + 1, to)).sum();
        }
        let state = if closed.is_ok() { to } else { State::Resident };
        let marked = if closed.is_ok() { run.len() } else { 0 };
        match to {
            State::Shared => self.limit.add_shared(marked),
            _ => _ = self.probation.fetch_add(marked, Relaxed),
        }
        run.for_each(|unit| self.words[unit].publish(state, |word| word));
        marked
    }

    /// Takes ownership of a block that the hand is to mark, and returns whether it did. A hot block
    /// is not marked, and cools; nor is a recent one, if those are spared. A block that did not
    /// compress cools slowly if most blocks do not.
    pub(crate) fn may_be_marked(&self, unit: usize, spares: Spares) -> bool {
        let word = &self.words[unit];
        let seen = word.load();
        let is_here = seen.state() == State::Resident && seen.pins() == 0;
        if !is_here || (spares == Spares::Recent && self.recent.has(unit)) {
            return false;
        }
        if seen.heat() > HEAT_KEPT_MAX && self.limit.stuck.is_slow(self.round.load(Relaxed)) {
            return false;
        }
        if seen.heat() > 0 {
            let _touched = word.try_change(seen, |word| word.with_heat(word.heat() - 1));
            return false;
        }
        word.try_own(seen)
    }

    /// Calls `takes` for each block, and `work` for each run of neighbours that it took. A run has
    /// `longest` blocks at most.
    pub(crate) fn for_runs(
        &self,
        units: Range<usize>,
        longest: usize,
        takes: impl Fn(usize) -> bool,
        mut work: impl FnMut(Range<usize>),
    ) {
        let mut start = units.start;
        while start < units.end {
            let end = units.end.min(start.saturating_add(longest));
            let taken = (start..end).take_while(|&unit| takes(unit)).count();
            if taken > 0 {
                work(start..start + taken);
            }
            // The block that was not taken, and so ended the run, is passed over.
            start += taken + usize::from(start + taken < end);
        }
    }

    /// Evicts those of the blocks that are in probation, up to `most`. Returns how many went, and
    /// whether there were no more.
    fn evict_marked(&self, units: Range<usize>, most: usize, buf: &mut [u8]) -> (usize, bool) {
        let (left, is_done) = (Cell::new(most), Cell::new(true));
        let begins = |unit: usize| {
            let seen = self.words[unit].load();
            let is_marked = seen.state() == State::Probation;
            if is_marked && left.get() == 0 {
                is_done.set(false);
                return false;
            }
            let begins = is_marked && self.words[unit].try_begin_evicting(seen);
            left.set(left.get() - usize::from(begins));
            begins
        };
        let mut gone = 0;
        self.for_runs(units.clone(), self.batch(), begins, |run| {
            self.probation.fetch_sub(run.len(), Relaxed);
            gone += self.evict_run(run, buf);
        });
        if self.limit.has_many_tables() {
            self.close_chunks(units);
        }
        (gone, is_done.get())
    }
}
