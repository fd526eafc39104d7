//! Faults: fills blocks that were touched, or that a call requests.

use crate::fatal::fatal;
use crate::order::{Side, Toucher, Wanted};
use crate::pager::{Pager, Verdict};
use crate::policy::HEAT_KEPT_MAX;
use crate::state::{Seen, State};
use crate::stats::count;
use crate::threads::Alone;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A block that is filled within this number of rounds after its eviction is a refault.
const SOON_ROUNDS: u32 = 1;
/// The mask for round numbers: the round of a block's eviction is kept in the bits of its heat.
const ROUNDS: u32 = crate::state::HEAT_MAX;

impl Pager {
    /// Handles a fault. `buf` is a seat's buffer.
    pub(crate) fn fault(&self, address: usize, toucher: Toucher, buf: &mut [u8]) -> Verdict {
        let began = Instant::now();
        let Some(offset) = self.memory.offset_of(address) else {
            return Verdict::Unmanaged { closings: 0 };
        };
        let unit = offset / self.blocks.unit;
        let closings = self.closings(unit);
        let brought = self.bring(unit, self.wanted(toucher, unit), buf);
        if brought.is_empty() {
            if !self.is_managed(unit) {
                return Verdict::Unmanaged { closings };
            }
            self.fill_hole(unit, offset);
            return Verdict::Resident { closings };
        }
        self.order.note(toucher, &brought);
        if self.makes_room_itself() {
            self.recent.note(unit);
        }
        self.counters.times.add(began.elapsed());
        Verdict::Answered
    }

    /// Returns which blocks a fault should fill. For untouched memory far from the limit that is a
    /// whole batch, because unwritten blocks use no memory, although they count. If the fault
    /// continues the thread's last one, it is twice the blocks of that one.
    pub(crate) fn wanted(&self, toucher: Toucher, unit: usize) -> Wanted {
        let is_new = self.words[unit].load().state() == State::Untouched;
        if is_new && self.makes_room_itself() && self.limit.has_room() {
            return Wanted { most: self.batch(), side: Side::Both };
        }
        let wanted = self.order.wanted(toucher, unit).unwrap_or(Wanted::from_it_on(1));
        Wanted { most: wanted.most.min(self.batch()), ..wanted }
    }

    /// Fills a missing page of a resident block with zeros: memory that was taken over from the
    /// program and never written (zm-U3). Ownership or a pin keeps the block from being closed.
    fn fill_hole(&self, unit: usize, offset: usize) {
        let page = page::page_size();
        let start = offset / page * page;
        let fill_holes = || self.backend.fill_holes(&self.memory, start..start + page);
        let fill = || self.expect("a page can't be filled", fill_holes());
        let (word, seen) = (&self.words[unit], self.words[unit].load());
        match (seen.state(), seen.pins()) {
            (State::Resident, 0) if word.try_own(seen) => {
                fill();
                word.publish(State::Resident, |word| word);
            }
            (State::Resident, 1..) if word.try_pin(seen) => {
                fill();
                word.unpin();
            }
            _ => {}
        }
    }

    /// Makes a block resident, and with it neighbours in the same state, as `wanted` specifies.
    /// Returns the blocks that became resident: none if the block was resident, or is not managed.
    pub(crate) fn bring(&self, unit: usize, wanted: Wanted, buf: &mut [u8]) -> Range<usize> {
        loop {
            let seen = self.words[unit].load();
            let brought = match seen.state() {
                State::Resident | State::Free | State::Plain => return unit..unit,
                State::Busy if self.take_back(unit) => unit..unit + 1,
                State::Busy => {
                    count(&self.counters.waits, 1);
                    self.wait_for_block(unit, seen);
                    continue;
                }
                State::Probation | State::Evicting => self.keep(unit, seen),
                State::Shared => {
                    self.make_room(0, buf);
                    self.unshare(self.group_of(unit));
                    match self.words[unit].load().state() {
                        State::Resident => unit..unit + 1,
                        _ => unit..unit,
                    }
                }
                State::Untouched if self.is_vacant(unit) => return unit..unit,
                state @ (State::Untouched | State::Evicted) => {
                    self.make_room(wanted.most, buf);
                    let own = self.own_counted(unit, seen, wanted);
                    match state {
                        _ if own.is_empty() => {}
                        State::Untouched => self.first_touch(&own),
                        _ => self.fill(unit, &own, buf),
                    }
                    own
                }
            };
            if !brought.is_empty() {
                return brought;
            }
        }
    }

    /// Takes ownership of an absent block if its word is still `seen`, and of neighbours in the
    /// same state and chunk, as `wanted` specifies. Returns the blocks. Their chunk is open then.
    fn own(&self, unit: usize, seen: Seen, wanted: Wanted) -> Range<usize> {
        self.open_chunk(unit);
        if !self.words[unit].try_own(seen) {
            return unit..unit;
        }
        // The chunk may have been closed again, because all its blocks are absent.
        if !self.is_open_around(unit) {
            self.words[unit].publish(seen.state(), |word| word);
            return unit..unit;
        }
        let chunk = self.units_of_chunk(unit);
        let behind = if wanted.side == Side::Before { 1 } else { wanted.most };
        let last = chunk.end.min(unit.saturating_add(behind));
        let end = unit + 1 + self.own_alike(unit + 1..last, seen.state(), |_| true);
        let before = if wanted.side == Side::Behind { 0 } else { wanted.most - (end - unit) };
        let first = chunk.start.max(unit.saturating_sub(before));
        unit - self.own_alike((first..unit).rev(), seen.state(), |_| true)..end
    }

    /// Does the same as `own`, and counts the blocks as resident. It counts them first, so that
    /// many simultaneous faults do not exceed the limit together.
    fn own_counted(&self, unit: usize, seen: Seen, wanted: Wanted) -> Range<usize> {
        let claimed = self.limit.claim(wanted.most);
        let own = self.own(unit, seen, Wanted { most: claimed, ..wanted });
        self.limit.settle(claimed, own.len());
        own
    }

    /// Opens a block whose pages still exist. Returns the blocks that were opened.
    fn keep(&self, unit: usize, seen: Seen) -> Range<usize> {
        if !self.words[unit].try_own(seen) {
            return unit..unit;
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
        unit..unit + 1
    }

    /// Makes untouched blocks resident, as zeros.
    fn first_touch(&self, own: &Range<usize>) {
        let filled = self.backend.fill_zeros(&self.memory, self.bytes_of(own.clone()));
        self.expect("memory can't be opened", filled);
        count(&self.counters.first_touches, own.len());
        for unit in own.clone() {
            self.words[unit].publish(State::Resident, |word| word.with_heat(0));
        }
    }

    /// Fills evicted blocks, of which one was touched, from the device.
    fn fill(&self, touched: usize, own: &Range<usize>, buf: &mut [u8]) {
        match self.alone() {
            Some(alone) => self.fill_in_place(own.clone(), &alone),
            None => self.fill_at_once(own.clone(), buf),
        }
        count(&self.counters.filled, own.len());
        count(&self.counters.ahead, own.len() - 1);
        self.note_copies(own.clone());
        for unit in own.clone() {
            let rounds = self.round().wrapping_sub(self.words[unit].load().heat()) & ROUNDS;
            let is_back_soon = rounds <= SOON_ROUNDS;
            count(&self.counters.distances[rounds as usize], 1);
            count(&self.counters.refaults, is_back_soon.into());
            let heat = if is_back_soon && unit == touched { HEAT_KEPT_MAX } else { 0 };
            self.words[unit].publish(State::Resident, |word| word.with_heat(heat).with_copy(true));
        }
    }

    /// Opens blocks and lets the device write to them directly. No other thread can see a block
    /// half filled (zm-A1).
    fn fill_in_place(&self, own: Range<usize>, alone: &Alone) {
        let bytes = self.bytes_of(own.clone());
        let at = bytes.start;
        self.open_and_fill(bytes, alone, |place| self.read_back(at, place));
        count(&self.counters.in_place, own.len());
    }

    /// Opens blocks that the caller owns, and calls `fill` to write to them.
    pub(crate) fn open_and_fill(
        &self,
        bytes: Range<usize>,
        alone: &Alone,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let opened = self.backend.fill_zeros(&self.memory, bytes.clone());
        self.expect("memory can't be opened", opened);
        self.memory.populate(bytes.clone());
        self.memory.with_bytes(bytes, alone, fill);
    }

    /// Fills blocks through `buf`. Other threads fault until all of a block is in place.
    fn fill_at_once(&self, own: Range<usize>, buf: &mut [u8]) {
        let bytes = self.bytes_of(own);
        let data = &mut buf[..bytes.len()];
        self.read_back(bytes.start, data);
        let filled = self.backend.fill(&self.memory, bytes, data);
        self.expect("a block can't be filled", filled);
    }

    /// Reads from the device; aborts the process if that fails.
    fn read_back(&self, at: usize, data: &mut [u8]) {
        if let Err(error) = self.device.read(at as u64, data) {
            fatal("a block can't be brought back", &error);
        }
    }

    /// Returns the clock's round, reduced to the bits that heat has.
    pub(crate) fn round(&self) -> u32 {
        self.round.load(Relaxed) & ROUNDS
    }
}
