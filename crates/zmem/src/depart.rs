//! Evicts blocks that nobody touched in probation: reads and stores them, and drops their pages.
//! All functions are called under the store's lock.

use crate::backend::Data;
use crate::fate::{Fate, Outcome};
use crate::pager::Pager;
use crate::policy::PIECE;
use crate::state::{HEAT_MAX, Seen, State};
use crate::stats::count;
use crate::store;
use std::cell::Cell;
use std::ops::Range;

impl Pager {
    /// Evicts a run of blocks in the state `Evicting`. As many as the queue has room for are passed
    /// to the compressor thread, if there is one. Returns the number of evicted blocks.
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
        // Data that were stored of kept blocks are freed before the blocks are owned, because that
        // may allocate and take long (zm-S4).
        let undone = Cell::new(0u64);
        self.for_runs(run.clone(), usize::MAX, is_kept, |part| {
            if !self.discard(part.clone()) {
                part.for_each(|unit| undone.set(undone.get() | 1 << (unit - run.start)));
            }
        });
        let (mut gone, ended) = (0, Cell::new(0u64));
        let ends = |unit: usize| {
            let is_ours = self.words[unit].try_end_evicting();
            ended.set(ended.get() | u64::from(is_ours) << (unit - run.start));
            is_ours
        };
        let mut next = run.start;
        while next < run.end {
            let alike = |unit: &usize| is_kept(*unit) == is_kept(next);
            let part = next..next + (next..run.end).take_while(alike).count();
            self.for_runs(part.clone(), usize::MAX, ends, |own| match is_kept(part.start) {
                true => self.stay(own, |unit| undone.get() >> (unit - run.start) & 1 == 1),
                false => {
                    let data = &data[self.bytes_of(own.start - run.start..own.end - run.start)];
                    gone += self.leave(own, from, data, |unit| outcome.of(unit - run.start));
                }
            });
            next = part.end;
        }
        // A block that was touched during the eviction is in use, so the data just stored are
        // freed.
        let stolen = |unit: &usize| ended.get() >> (unit - run.start) & 1 == 0;
        run.clone().filter(stolen).for_each(|unit| {
            if !self.discard(unit..unit + 1) {
                self.note_copies(unit..unit + 1);
                self.words[unit].set_copy(true);
            }
        });
        gone
    }

    /// Copies `Evicting` blocks. Returns where their data are afterwards, and whether all of them
    /// were copied.
    fn copy(&self, run: Range<usize>, data: &mut [u8]) -> (Data, bool) {
        let bytes = self.bytes_of(run.clone());
        match self.backend.read(&self.memory, bytes.start, data) {
            Ok(()) => (Data::Closed, true),
            Err(_) => (Data::Shown, self.show_and_read(run, data)),
        }
    }

    /// Copies `Evicting` blocks if the kernel refuses to read protected memory: makes them readable
    /// to all threads first. Blocks that were touched during the copy are zeros in it. Returns
    /// whether the kernel made all of them readable.
    fn show_and_read(&self, run: Range<usize>, data: &mut [u8]) -> bool {
        data.fill(0);
        let mut are_shown = true;
        let ends = |unit: usize| self.words[unit].try_end_evicting();
        self.for_runs(run.clone(), usize::MAX, ends, |own| {
            let bytes = self.bytes_of(own.clone());
            let is_shown = self.backend.show(&self.memory, bytes.clone()).is_ok();
            own.clone().for_each(|unit| self.words[unit].publish(State::Evicting, |word| word));
            if is_shown {
                // They stay readable: a touch only makes them writable as well, and `dont_need`
                // waits for the store's lock.
                let to = self.bytes_of(own.start - run.start..own.end - run.start);
                self.memory.read_open(bytes.start, &mut data[to]);
            }
            are_shown &= is_shown;
        });
        are_shown
    }

    /// Decides that the blocks of a run are queued for the compressor thread, except those that are
    /// zeros.
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
        // Raw blocks save nothing, so a unit must not be kept evicted if most of its blocks are
        // raw.
        let blocks = (data.len() / self.blocks.stored) as u64;
        let counter = match self.device.write_telling(at, data) {
            Ok(written) if written.raw * 2 < blocks.max(1) + 1 => return true,
            Ok(_) => &self.counters.incompressible,
            Err(_) => &self.counters.refused,
        };
        count(counter, units.len());
        false
    }

    /// Drops the pages of blocks that are stored or zeros. Returns the number of evicted blocks.
    /// The caller owns the blocks; `data` are their contents.
    fn leave(
        &self,
        own: Range<usize>,
        from: Data,
        data: &[u8],
        fate: impl Fn(usize) -> Fate,
    ) -> usize {
        let bytes = self.bytes_of(own.clone());
        if self.backend.drop_pages(&self.memory, bytes, from).is_err() {
            self.stay_stored(own, data, fate);
            return 0;
        }
        self.publish_gone(own.clone(), data, fate);
        own.len()
    }

    /// Publishes the new states of owned blocks whose pages were dropped. `data` are their
    /// contents. Each block is stored, all zeros, or to be queued.
    pub(crate) fn publish_gone(
        &self,
        own: Range<usize>,
        data: &[u8],
        fate: impl Fn(usize) -> Fate,
    ) {
        self.limit.sub(own.len());
        let (round, mut waiting) = (self.round(), 0);
        for (nth, unit) in own.clone().enumerate() {
            let word = &self.words[unit];
            match fate(unit) {
                Fate::Waiting => {
                    self.hand_over(unit, &data[self.bytes_of(nth..nth + 1)]);
                    waiting += 1;
                }
                Fate::Zeros => {
                    count(&self.counters.zeros, 1);
                    word.publish(State::Untouched, |word| word.with_heat(0));
                }
                _ => word.publish(State::Evicted, |word| word.with_heat(round).with_copy(false)),
            }
        }
        count(&self.counters.evicted, own.len() - waiting);
    }

    /// Makes blocks resident again whose pages the kernel did not drop, because the program has
    /// locked them in the meantime.
    pub(crate) fn stay_stored(&self, own: Range<usize>, data: &[u8], fate: impl Fn(usize) -> Fate) {
        let put_back = self.backend.put_back(&self.memory, self.bytes_of(own.clone()), data);
        self.expect("memory can't be put back", put_back);
        count(&self.counters.refused, own.len());
        self.note_copies(own.clone());
        for unit in own {
            let has_copy = |word: Seen| word.has_copy() || fate(unit) == Fate::Stored;
            let kept = |word: Seen| word.with_heat(HEAT_MAX).with_copy(has_copy(word));
            self.words[unit].publish(State::Resident, kept);
        }
    }

    /// Makes owned blocks resident again that the device refused, or that did not get smaller.
    pub(crate) fn stay(&self, own: Range<usize>, has_copy: impl Fn(usize) -> bool) {
        let opened = self.backend.reopen(&self.memory, self.bytes_of(own.clone()));
        self.expect("memory can't be opened again", opened);
        self.publish_kept(own, has_copy);
    }

    /// Publishes owned, accessible blocks as resident after the device refused them, or they did
    /// not get smaller.
    pub(crate) fn publish_kept(&self, own: Range<usize>, has_copy: impl Fn(usize) -> bool) {
        if own.clone().any(&has_copy) {
            self.note_copies(own.clone());
        }
        for unit in own {
            let kept = |word: Seen| word.with_heat(HEAT_MAX).with_copy(has_copy(unit));
            self.words[unit].publish(State::Resident, kept);
        }
    }
}
