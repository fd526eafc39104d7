//! A touch of a block that is not resident, and whatever else brings blocks back.

use crate::fatal::fatal;
use crate::pager::{Pager, Verdict};
use crate::policy::{HEAT_KEPT_MAX, PIECE};
use crate::state::{Seen, State};
use crate::stats::count;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::time::Instant;

/// Rounds of the clock within which a block is back soon.
const SOON_ROUNDS: u32 = 1;
/// Rounds are kept in as many bits as heat has.
const ROUNDS: u32 = crate::state::HEAT_MAX;

thread_local! {
    /// Where this thread's last fault ended, and how many blocks it brought: of which pager, at
    /// which block the next one would go on.
    static LAST: Cell<(usize, usize, usize)> = const { Cell::new((0, 0, 0)) };
}

impl Pager {
    /// Answers a fault, with a seat's buffer.
    pub(crate) fn fault(&self, address: usize, buf: &mut [u8]) -> Verdict {
        let began = Instant::now();
        let closings = self.closings.load(SeqCst);
        let unit = (address - self.memory.addresses().start) / self.blocks.unit;
        let wanted = self.blocks_ahead(unit);
        let brought = self.bring(unit, wanted, buf);
        if brought == 0 {
            return Verdict::Resident { closings };
        }
        LAST.set((self.name(), unit + brought, brought));
        self.counters.times.add(began.elapsed());
        Verdict::Answered
    }

    /// What tells this pager from others.
    fn name(&self) -> usize {
        (&raw const *self).addr()
    }

    /// How many blocks a fault brings: twice as many as the thread's last one, if it goes on there.
    fn blocks_ahead(&self, unit: usize) -> usize {
        match LAST.get() {
            (pager, next, count) if (pager, next) == (self.name(), unit) => {
                (2 * count).min(self.batch())
            }
            _ => 1,
        }
    }

    /// Has a block be resident, and up to `wanted` in all of those behind it that are as it was;
    /// how many have come, 0 if it was resident.
    pub(crate) fn bring(&self, unit: usize, wanted: usize, buf: &mut [u8]) -> usize {
        loop {
            let seen = self.words[unit].load();
            let brought = match seen.state() {
                State::Resident => return 0,
                State::Busy => {
                    count(&self.counters.waits, 1);
                    self.words[unit].wait(seen);
                    continue;
                }
                State::Probation | State::Evicting => self.keep(unit, seen),
                State::Untouched => {
                    self.open_chunk(unit);
                    self.make_room(wanted, buf);
                    self.first_touch(unit, seen, wanted.min(self.rest_of_chunk(unit)))
                }
                State::Evicted => {
                    self.make_room(wanted, buf);
                    self.fill(unit, seen, wanted, buf)
                }
            };
            if brought > 0 {
                return brought;
            }
        }
    }

    /// Owns the block if it is as it was seen, and those behind it that are in the same state,
    /// `wanted` at most; how many.
    fn own(&self, unit: usize, seen: Seen, wanted: usize) -> Range<usize> {
        if !self.words[unit].try_own(seen) {
            return unit..unit;
        }
        let end = self.units().min(unit + wanted);
        let is_taken = |next: &usize| {
            let next = &self.words[*next];
            let behind = next.load();
            behind.state() == seen.state() && next.try_own(behind)
        };
        unit..(unit + 1..end).take_while(is_taken).last().unwrap_or(unit) + 1
    }

    /// Opens a block whose data are there still.
    fn keep(&self, unit: usize, seen: Seen) -> usize {
        if !self.words[unit].try_own(seen) {
            return 0;
        }
        let opened = self.backend.reopen(&self.memory, self.bytes_of(unit..unit + 1));
        self.expect("memory can't be opened again", opened);
        let counter = match seen.state() {
            State::Probation => {
                self.probation.fetch_sub(1, Relaxed);
                &self.counters.kept
            }
            _ => &self.counters.stolen,
        };
        count(counter, 1);
        let hotter = |word: Seen| word.with_heat((word.heat() + 1).min(HEAT_KEPT_MAX));
        self.words[unit].publish(State::Resident, hotter);
        1
    }

    /// Opens blocks that are zeros.
    fn first_touch(&self, unit: usize, seen: Seen, wanted: usize) -> usize {
        let own = self.own(unit, seen, wanted);
        if own.is_empty() {
            return 0;
        }
        self.limit.add(own.len());
        let filled = self.backend.fill_zeros(&self.memory, self.bytes_of(own.clone()));
        self.expect("memory can't be opened", filled);
        count(&self.counters.first_touches, own.len());
        for unit in own.clone() {
            self.words[unit].publish(State::Resident, |word| word.with_heat(0));
        }
        own.len()
    }

    /// Brings blocks back from the device.
    fn fill(&self, unit: usize, seen: Seen, wanted: usize, buf: &mut [u8]) -> usize {
        let own = self.own(unit, seen, wanted);
        if own.is_empty() {
            return 0;
        }
        self.limit.add(own.len());
        let bytes = self.bytes_of(own.clone());
        let data = &mut buf[..bytes.len()];
        if let Err(error) = self.device.read(bytes.start as u64, data) {
            fatal("a block can't be brought back", &error);
        }
        let filled = self.backend.fill(&self.memory, bytes, data);
        self.expect("a block can't be filled", filled);
        count(&self.counters.filled, own.len());
        count(&self.counters.ahead, own.len() - 1);
        self.note_copies(own.clone());
        for unit in own.clone() {
            let rounds = self.round().wrapping_sub(self.words[unit].load().heat()) & ROUNDS;
            let is_back_soon = rounds <= SOON_ROUNDS;
            count(&self.counters.refaults, is_back_soon.into());
            let heat = u32::from(is_back_soon && own.start == unit);
            self.words[unit].publish(State::Resident, |word| word.with_heat(heat).with_copy(true));
        }
        own.len()
    }

    /// The round of the clock, in as many bits as heat has.
    pub(crate) fn round(&self) -> u32 {
        self.round.load(Relaxed) & ROUNDS
    }

    /// Takes note of pieces in which blocks have copies.
    pub(crate) fn note_copies(&self, units: Range<usize>) {
        for piece in units.start / PIECE..units.end.div_ceil(PIECE) {
            let (word, bit) = (&self.copied[piece / 64], 1 << (piece % 64));
            if word.load(Relaxed) & bit == 0 {
                word.fetch_or(bit, AcqRel);
            }
        }
    }
}
