//! Who goes: a clock over pieces, then probation, then the device. All under the store's lock.
//!
//! ```text
//!   hand -> piece: resident blocks without heat are closed -> queue of pieces
//!                                  the oldest piece -> what is still closed is stored, and goes
//! ```

use crate::clock::Evictor;
use crate::pager::Pager;
use crate::policy::{HEAT_KEPT_MAX, PIECE};
use crate::state::State;
use crate::stats::count;
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// In probation is at most this share of the resident blocks.
const PROBATION_SHARE: usize = 8;
/// Of so many pieces in a row all is refused before that is taken for the end (zm-L3).
const VAIN_MAX: usize = 4;
/// So often the hand goes round in vain before it gives up: what was touched has cooled by then.
const ROUNDS_MAX: usize = HEAT_KEPT_MAX as usize + 2;

impl Pager {
    /// Evicts so many blocks, or until nothing more can go; how many went. `buf` is a seat's.
    pub(crate) fn evict(&self, evictor: &mut Evictor, wanted: usize, buf: &mut [u8]) -> usize {
        let (mut gone, mut idle, mut vain) = (0, 0, 0);
        self.drop_copies();
        while gone < wanted && idle <= ROUNDS_MAX * evictor.pieces && vain < VAIN_MAX {
            if self.wants_marks(evictor, idle) {
                self.advance(evictor);
                idle += 1;
            } else if let Some(piece) = evictor.pop() {
                let refused = self.counters.refused.load(Relaxed);
                let more = self.evict_piece(piece, buf);
                let is_vain = more == 0 && self.counters.refused.load(Relaxed) > refused;
                vain = if is_vain { vain + 1 } else { 0 };
                idle = if more > 0 { 0 } else { idle };
                gone += more;
            }
        }
        self.weigh();
        self.limit.set_stuck(gone == 0);
        gone
    }

    /// Whether more blocks should be in probation before the oldest of them go. After a round in
    /// vain they go, and if there are none, the hand goes on until what is hot has cooled.
    fn wants_marks(&self, evictor: &Evictor, idle: usize) -> bool {
        let share = self.limit.resident() / PROBATION_SHARE;
        let share = share.clamp(PIECE.min(self.probation_max), self.probation_max);
        let is_short = self.probation.load(Relaxed) < share && idle <= evictor.pieces;
        evictor.is_empty() || (is_short && !evictor.is_full())
    }

    /// Moves the hand by a piece, and marks what is in it.
    fn advance(&self, evictor: &mut Evictor) {
        let (piece, is_round) = evictor.step();
        let marked = self.mark_piece(piece);
        if is_round {
            self.round.fetch_add(1, Relaxed);
        }
        if marked > 0 {
            evictor.push(piece);
        }
    }

    pub(crate) fn units_of(&self, piece: usize) -> Range<usize> {
        piece * PIECE..((piece + 1) * PIECE).min(self.units())
    }

    /// Evicts blocks of a range, hot ones too.
    pub(crate) fn evict_range(&self, units: Range<usize>, buf: &mut [u8]) {
        let evictor = self.evictor.lock();
        let cools = |unit: usize| {
            let word = &self.words[unit];
            let seen = word.load();
            seen.state() == State::Resident && seen.pins() == 0 && word.try_own(seen)
        };
        for start in units.clone().step_by(PIECE) {
            let part = start..units.end.min(start + PIECE);
            self.mark(part.clone(), cools);
            self.evict_marked(part, buf);
        }
        self.weigh();
        drop(evictor);
    }

    /// Puts the blocks of a piece in probation that are resident, without heat and pins.
    fn mark_piece(&self, piece: usize) -> usize {
        self.mark(self.units_of(piece), |unit| self.may_be_marked(unit))
    }

    /// Puts the blocks of a piece in probation that `takes` owns; how many.
    fn mark(&self, units: Range<usize>, takes: impl Fn(usize) -> bool) -> usize {
        let mut marked = 0;
        self.for_runs(units, usize::MAX, takes, |run| {
            self.closings.fetch_add(1, SeqCst);
            let closed = self.backend.close(&self.memory, self.bytes_of(run.clone()));
            let state = if closed.is_ok() { State::Probation } else { State::Resident };
            if closed.is_ok() {
                marked += run.len();
                self.probation.fetch_add(run.len(), Relaxed);
            }
            run.for_each(|unit| self.words[unit].publish(state, |word| word));
        });
        count(&self.counters.marked, marked);
        marked
    }

    /// Owns a block that the hand marks; one that is hot cools.
    fn may_be_marked(&self, unit: usize) -> bool {
        let word = &self.words[unit];
        let seen = word.load();
        if seen.state() != State::Resident || seen.pins() > 0 {
            return false;
        }
        if seen.heat() > 0 {
            let _touched = word.try_change(seen, |word| word.with_heat(word.heat() - 1));
            return false;
        }
        word.try_own(seen)
    }

    /// Shows `work` the runs of blocks that `takes` took, of `longest` at most.
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
            // The one that was not taken is passed over.
            start += taken + usize::from(start + taken < end);
        }
    }

    /// Has go what is still in probation of a piece; how many blocks.
    fn evict_piece(&self, piece: usize, buf: &mut [u8]) -> usize {
        self.evict_marked(self.units_of(piece), buf)
    }

    fn evict_marked(&self, units: Range<usize>, buf: &mut [u8]) -> usize {
        let mut gone = 0;
        let begins = |unit: usize| {
            let seen = self.words[unit].load();
            seen.state() == State::Probation && self.words[unit].try_begin_evicting(seen)
        };
        self.for_runs(units, self.batch(), begins, |run| {
            self.probation.fetch_sub(run.len(), Relaxed);
            gone += self.evict_run(run, buf);
        });
        gone
    }
}
