//! How blocks go that were in probation to the end: read, stored, marked. Under the store's lock.

use crate::fatal::fatal;
use crate::pager::Pager;
use crate::state::{HEAT_MAX, Seen, State};
use crate::stats::count;
use crate::store;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// What became of a block that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stored,
    Zeros,
    /// Not stored, or not smaller.
    Kept,
}

/// What became of each block of a run, a bit for each: a run has `PIECE` at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    zeros: u64,
    kept: u64,
}

impl Outcome {
    pub(crate) fn of(&self, nth: usize) -> Fate {
        match (self.zeros >> nth & 1, self.kept >> nth & 1) {
            (1, _) => Fate::Zeros,
            (_, 1) => Fate::Kept,
            _ => Fate::Stored,
        }
    }

    pub(crate) fn set(&mut self, nth: usize, fate: Fate) {
        match fate {
            Fate::Zeros => self.zeros |= 1 << nth,
            Fate::Kept => self.kept |= 1 << nth,
            Fate::Stored => {}
        }
    }
}

impl Pager {
    /// Stores a run of blocks that are being evicted, and has them go; how many.
    pub(crate) fn evict_run(&self, run: Range<usize>, buf: &mut [u8]) -> usize {
        let bytes = self.bytes_of(run.clone());
        let data = &mut buf[..bytes.len()];
        if let Err(errno) = self.backend.read(&self.memory, bytes.start, data) {
            fatal("memory can't be read", &errno);
        }
        let outcome = self.store(run.clone(), data);
        let (mut gone, ended) = (0, Cell::new(0u64));
        let ends = |unit: usize| {
            let is_ours = self.words[unit].try_end_evicting();
            ended.set(ended.get() | u64::from(is_ours) << (unit - run.start));
            is_ours
        };
        let mut next = run.start;
        while next < run.end {
            let fate = outcome.of(next - run.start);
            let is_kept = fate == Fate::Kept;
            let alike = |unit: &usize| (outcome.of(*unit - run.start) == Fate::Kept) == is_kept;
            let part = next..next + (next..run.end).take_while(alike).count();
            next = part.end;
            self.for_runs(part, usize::MAX, ends, |own| match is_kept {
                true => self.stay(own),
                false => {
                    gone += own.len();
                    self.leave(own, |unit| outcome.of(unit - run.start));
                }
            });
        }
        // A block that was touched meanwhile is in use: what was stored of it is not.
        let stolen = |unit: &usize| ended.get() >> (unit - run.start) & 1 == 0;
        run.clone().filter(stolen).for_each(|unit| self.discard(unit..unit + 1));
        gone
    }

    /// Stores what of some blocks is not zeros.
    fn store(&self, run: Range<usize>, data: &[u8]) -> Outcome {
        let mut outcome = Outcome::default();
        let step = self.blocks.stored / self.blocks.unit;
        let of = |units: &Range<usize>| {
            &data[self.bytes_of(units.start - run.start..units.end - run.start)]
        };
        let is_zero = |unit: usize| store::is_zero(of(&(unit..unit + 1)));
        let mut start = run.start;
        while start < run.end {
            let end = run.end.min((start / step + 1) * step);
            let part = start..start + (start..end).take_while(|unit| !is_zero(*unit)).count();
            if part.is_empty() {
                outcome.set(start - run.start, Fate::Zeros);
                start += 1;
                continue;
            }
            let raw = self.device.mm_stat().huge_pages_since;
            let written = self.device.write(self.bytes_of(part.clone()).start as u64, of(&part));
            let counter = match written {
                Ok(()) if self.device.mm_stat().huge_pages_since == raw => None,
                Ok(()) => Some(&self.counters.incompressible),
                Err(_) => Some(&self.counters.refused),
            };
            if let Some(counter) = counter {
                count(counter, part.len());
                part.clone().for_each(|unit| outcome.set(unit - run.start, Fate::Kept));
            }
            start = part.end;
        }
        outcome
    }

    /// Has blocks go that are stored, or zeros. They are the caller's own.
    fn leave(&self, own: Range<usize>, fate: impl Fn(usize) -> Fate) {
        let dropped = self.backend.drop_pages(&self.memory, self.bytes_of(own.clone()));
        self.expect("memory can't be marked", dropped);
        self.limit.sub(own.len());
        count(&self.counters.evicted, own.len());
        let round = self.round();
        for unit in own {
            let word = &self.words[unit];
            match fate(unit) {
                Fate::Zeros => {
                    count(&self.counters.zeros, 1);
                    word.publish(State::Untouched, |word| word.with_heat(0));
                }
                _ => word.publish(State::Evicted, |word| word.with_heat(round).with_copy(false)),
            }
        }
    }

    /// Has blocks be resident that could not be stored, or not smaller. They are the caller's own.
    fn stay(&self, own: Range<usize>) {
        self.discard(own.clone());
        let opened = self.backend.reopen(&self.memory, self.bytes_of(own.clone()));
        self.expect("memory can't be opened again", opened);
        for unit in own {
            let kept = |word: Seen| word.with_heat(HEAT_MAX).with_copy(false);
            self.words[unit].publish(State::Resident, kept);
        }
    }

    /// Frees what the device has of blocks. Where that takes memory there is none of, it stays
    /// until they are stored again.
    fn discard(&self, units: Range<usize>) {
        let bytes = self.bytes_of(units);
        let _kept = self.device.discard(bytes.start as u64, bytes.len() as u64);
    }

    /// Frees all copies.
    pub(crate) fn drop_copies(&self) {
        for (nth, word) in self.copied.iter().enumerate() {
            let mut bits = if word.load(Relaxed) == 0 { 0 } else { word.swap(0, AcqRel) };
            while bits != 0 {
                self.drop_copies_of(nth * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    fn drop_copies_of(&self, piece: usize) {
        let has_copy = |unit: usize| {
            let seen = self.words[unit].load();
            if seen.state() == State::Busy {
                // It may be on its way back, and have a copy then.
                self.note_copies(unit..unit + 1);
            }
            seen.has_copy()
        };
        self.for_runs(self.units_of(piece), usize::MAX, has_copy, |run| {
            self.discard(run.clone());
            run.for_each(|unit| self.words[unit].clear_copy());
        });
    }
}
