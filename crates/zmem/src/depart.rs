//! Evicts blocks that no thread accessed in probation: stores their data and drops their pages. All
//! functions are called under the store's lock.

use crate::backend::Data;
use crate::fate::{Fate, Outcome};
use crate::owned::{OwnedRun, for_evicting};
use crate::pager::Pager;
use crate::policy::PIECE;
use crate::state::{HEAT_MAX, State};
use crate::stats::count;
use crate::store;
use std::cell::Cell;
use std::ops::Range;

impl Pager {
    /// Evicts a run of blocks in the state `Evicting`. If a compressor thread exists, it stores as
    /// many of the first blocks as the queue has room for. Returns the number of evicted blocks.
    pub(crate) fn evict_run(&self, run: Range<usize>, buf: &mut [u8]) -> usize {
        let (start, middle) = (run.start, run.start + self.waiting_room(run.len()));
        let mut gone = 0;
        if start < middle {
            gone += self.evict_part(start..middle, buf, Self::defer);
            self.storer.ring();
        }
        if middle < run.end {
            gone += self.evict_part(middle..run.end, buf, Self::store);
        }
        gone
    }

    /// Stores `Evicting` blocks by `store`, and drops their pages. Returns the number of evicted
    /// blocks.
    fn evict_part(
        &self,
        run: Range<usize>,
        buf: &mut [u8],
        store: impl Fn(&Self, Range<usize>, &[u8]) -> Outcome,
    ) -> usize {
        let bytes = self.bytes_of(run.clone());
        let data = &mut buf[..bytes.len()];
        let (from, is_read) = self.copy(run.clone(), data);
        let outcome = if is_read {
            store(self, run.clone(), data)
        } else {
            count(&self.counters.refused, run.len());
            Outcome::ALL_KEPT
        };
        let is_kept = |unit: usize| outcome.of(unit - run.start) == Fate::Kept;
        // The stored data of kept blocks are freed before the blocks are owned, because freeing may
        // allocate and take long (zm-S4).
        let undone = Cell::new(0u64);
        self.for_runs(run.clone(), usize::MAX, is_kept, |part| {
            if !self.discard(part.clone()) {
                part.for_each(|unit| undone.set(undone.get() | 1 << (unit - run.start)));
            }
        });
        let (mut gone, mut ended) = (0, 0u64);
        let mut next = run.start;
        while next < run.end {
            let alike = |unit: &usize| is_kept(*unit) == is_kept(next);
            let part = next..next + (next..run.end).take_while(alike).count();
            for_evicting(self, part.clone(), |own| {
                let Range { start, end } = own.units();
                own.units().for_each(|unit| ended |= 1 << (unit - run.start));
                if is_kept(start) {
                    return self.stay(own, |unit| undone.get() >> (unit - run.start) & 1 == 1);
                }
                let data = &data[self.bytes_of(start - run.start..end - run.start)];
                gone += self.leave(own, from, data, |unit| outcome.of(unit - run.start));
            });
            next = part.end;
        }
        // A block that was accessed during the eviction is resident again, so its stored data are
        // freed.
        let stolen = |unit: &usize| ended >> (unit - run.start) & 1 == 0;
        run.clone().filter(stolen).for_each(|unit| {
            if !self.discard(unit..unit + 1) {
                self.note_copies(unit..unit + 1);
                self.words[unit].set_copy(true);
            }
        });
        gone
    }

    /// Copies `Evicting` blocks. Returns the place of the data afterwards, and whether all data
    /// were copied.
    fn copy(&self, run: Range<usize>, data: &mut [u8]) -> (Data, bool) {
        let bytes = self.bytes_of(run.clone());
        match self.backend.read(&self.memory, bytes.start, data) {
            Ok(()) => (Data::Closed, true),
            Err(_) => (Data::Shown, self.show_and_read(run, data)),
        }
    }

    /// Makes `Evicting` blocks readable to all threads and copies them, if the kernel refuses to
    /// read protected memory. If a block was accessed in the meantime, its copy contains only
    /// zeros. Returns whether all blocks became readable.
    fn show_and_read(&self, run: Range<usize>, data: &mut [u8]) -> bool {
        data.fill(0);
        let mut are_shown = true;
        for_evicting(self, run.clone(), |own| {
            let (is_shown, Range { start, end }) = (own.show().is_ok(), own.units());
            own.release();
            if is_shown {
                // The blocks stay readable: a fault only makes them writable as well, and
                // `dont_need` waits for the store's lock.
                let to = self.bytes_of(start - run.start..end - run.start);
                self.memory.read_open(start * self.blocks.unit, &mut data[to]);
            }
            are_shown &= is_shown;
        });
        are_shown
    }

    /// Chooses the fate of each block: `Zeros` if the block is all zeros, otherwise `Waiting` (to
    /// be queued for the compressor thread).
    pub(crate) fn defer(&self, run: Range<usize>, data: &[u8]) -> Outcome {
        let mut outcome = Outcome::default();
        for (nth, data) in data.chunks(self.blocks.unit).enumerate() {
            let fate = if store::is_zero(data) { Fate::Zeros } else { Fate::Waiting };
            outcome.set(nth, fate);
        }
        debug_assert!(run.len() <= PIECE);
        outcome
    }

    /// Stores the blocks of a run that are not all zeros.
    pub(crate) fn store(&self, run: Range<usize>, data: &[u8]) -> Outcome {
        let mut outcome = Outcome::default();
        // A unit has several stored blocks if marks cover large units (zm-M2).
        let step = (self.blocks.stored / self.blocks.unit).max(1);
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
            if !self.is_stored(part.clone(), of(&part)) {
                part.clone().for_each(|unit| outcome.set(unit - run.start, Fate::Kept));
            }
            start = part.end;
        }
        outcome
    }

    /// Writes blocks to the device. Returns whether that saves memory; if not, counts the reason.
    pub(crate) fn is_stored(&self, units: Range<usize>, data: &[u8]) -> bool {
        let at = self.bytes_of(units.clone()).start as u64;
        // Raw blocks save no memory, so a unit stays resident if more than half of its blocks are
        // raw.
        let blocks = (data.len() / self.blocks.stored) as u64;
        let counter = match self.device.write_with_outcome(at, data) {
            Ok(written) if written.raw * 2 < blocks.max(1) + 1 => return true,
            Ok(_) => &self.counters.incompressible,
            Err(_) => &self.counters.refused,
        };
        count(counter, units.len());
        false
    }

    /// Drops the pages of owned blocks whose fate is not `Kept`. `data` are their contents. Returns
    /// the number of evicted blocks.
    fn leave(
        &self,
        own: OwnedRun<'_>,
        from: Data,
        data: &[u8],
        fate: impl Fn(usize) -> Fate,
    ) -> usize {
        if own.drop_pages(from).is_err() {
            self.stay_stored(own, data, fate);
            return 0;
        }
        let gone = own.len();
        self.publish_gone(own, data, fate);
        gone
    }

    /// Publishes the new states of owned blocks whose pages were dropped. `data` are their
    /// contents. Each block is stored, all zeros, or to be queued.
    pub(crate) fn publish_gone(
        &self,
        mut own: OwnedRun<'_>,
        data: &[u8],
        fate: impl Fn(usize) -> Fate,
    ) {
        own.count(false);
        let (units, round, mut waiting) = (own.units(), self.round(), 0);
        while let Some(block) = own.split_first() {
            let unit = block.units().start;
            match fate(unit) {
                Fate::Waiting => {
                    block.queue(&data[self.bytes_of(unit - units.start..unit - units.start + 1)]);
                    waiting += 1;
                }
                Fate::Zeros => {
                    count(&self.counters.zeros, 1);
                    block.publish(State::Untouched, |_, word| word.with_heat(0));
                }
                _ => {
                    block.publish(State::Evicted, |_, word| word.with_heat(round).with_copy(false))
                }
            }
        }
        count(&self.counters.evicted, units.len() - waiting);
    }

    /// Makes blocks resident again if the kernel refused to drop their pages because the program
    /// locked the blocks in the meantime.
    pub(crate) fn stay_stored(&self, own: OwnedRun<'_>, data: &[u8], fate: impl Fn(usize) -> Fate) {
        own.put_back(data);
        count(&self.counters.refused, own.len());
        self.note_copies(own.units());
        own.publish(State::Resident, |unit, word| {
            let has_copy = word.has_copy() || fate(unit) == Fate::Stored;
            word.with_heat(HEAT_MAX).with_copy(has_copy)
        });
    }

    /// Makes owned blocks that were not stored resident again.
    fn stay(&self, own: OwnedRun<'_>, has_copy: impl Fn(usize) -> bool) {
        self.expect("memory can't be opened again", own.reopen());
        self.publish_kept(own, has_copy);
    }

    /// Publishes owned, accessible blocks as resident, because the device refused them or
    /// compression did not make them smaller.
    pub(crate) fn publish_kept(&self, own: OwnedRun<'_>, has_copy: impl Fn(usize) -> bool) {
        if own.units().any(&has_copy) {
            self.note_copies(own.units());
        }
        own.publish(State::Resident, |unit, word| {
            word.with_heat(HEAT_MAX).with_copy(has_copy(unit))
        });
    }
}
