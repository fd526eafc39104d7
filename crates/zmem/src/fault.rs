//! Faults: fills blocks that a thread accessed or a call requests.

use crate::fatal::fatal;
use crate::order::{Side, Toucher, Wanted};
use crate::owned::{OwnedRun, own_block};
use crate::pager::{Pager, Verdict};
use crate::policy::HEAT_KEPT_MAX;
use crate::state::{State, WordValue};
use crate::stats::count;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// The fill of a block counts as a refault if the block was evicted at most this number of rounds
/// before.
const SOON_ROUNDS: u32 = 1;
/// The mask for round numbers: the round of a block's eviction is kept in the bits of its heat.
const ROUNDS: u32 = crate::state::HEAT_MAX;

impl Pager {
    /// Handles a fault of `toucher` at `address`. `buf` is a context's buffer.
    pub(crate) fn fault(&self, address: usize, toucher: Toucher, buf: &mut [u8]) -> Verdict {
        let began = Instant::now();
        let Some(offset) = self.memory.offset_of(address) else {
            return Verdict::Unmanaged { closings: 0 };
        };
        let block = offset / self.sizes.block;
        let closings = self.closings(block);
        let brought = self.bring(block, self.wanted(toucher, block), buf);
        if brought.is_empty() {
            if !self.is_managed(block) {
                return Verdict::Unmanaged { closings };
            }
            self.fill_hole(block, offset);
            return Verdict::Resident { closings };
        }
        self.order.note(toucher, &brought);
        if self.makes_room_itself() {
            self.recent.note(block);
        }
        self.counters.times.add(began.elapsed());
        Verdict::Answered
    }

    /// Returns which blocks a fault should fill. If the block is untouched and the limit is far
    /// from reached, returns a whole batch, because unwritten blocks use no memory, although they
    /// count as resident. If the fault continues the thread's last fault, returns twice as many
    /// blocks as that fault filled.
    pub(crate) fn wanted(&self, toucher: Toucher, block: usize) -> Wanted {
        let is_new = self.words[block].load().state() == State::Untouched;
        if is_new && self.makes_room_itself() && self.limit.has_room() {
            return Wanted { most: self.batch(), side: Side::Both };
        }
        let wanted = self.order.wanted(toucher, block).unwrap_or(Wanted::from_it_on(1));
        Wanted { most: wanted.most.min(self.batch()), ..wanted }
    }

    /// Fills a missing page of a resident block with zeros. The page was taken over from the
    /// program, and was never written (zm-U3). During the fill, ownership or a pin prevents other
    /// threads from closing the block.
    fn fill_hole(&self, block: usize, offset: usize) {
        let page = page::page_size();
        let start = offset / page * page;
        let fill_holes = || self.backend.fill_holes(&self.memory, start..start + page);
        let fill = || self.expect("a page can't be filled", fill_holes());
        let (word, seen) = (&self.words[block], self.words[block].load());
        match (seen.state(), seen.pins()) {
            (State::Resident, 0) => {
                if let Some(own) = own_block(self, block, seen) {
                    fill();
                    own.release();
                }
            }
            (State::Resident, 1..) if word.try_pin(seen) => {
                fill();
                word.unpin();
            }
            _ => {}
        }
    }

    /// Makes a block resident, and also neighbours in the same state, as `wanted` specifies.
    /// Returns the blocks that became resident, or an empty range if the block was resident or is
    /// not managed.
    pub(crate) fn bring(&self, block: usize, wanted: Wanted, buf: &mut [u8]) -> Range<usize> {
        loop {
            let seen = self.words[block].load();
            let brought = match seen.state() {
                State::Resident | State::Free | State::Plain => return block..block,
                State::Busy if self.take_back(block) => block..block + 1,
                State::Busy => {
                    count(&self.counters.waits, 1);
                    self.wait_for_block(block, seen);
                    continue;
                }
                State::Probation | State::Evicting => self.keep(block, seen),
                State::Shared => {
                    self.make_room(0, buf);
                    self.unshare(self.group_of(block));
                    match self.words[block].load().state() {
                        State::Resident => block..block + 1,
                        _ => block..block,
                    }
                }
                State::Untouched if self.is_vacant(block) => return block..block,
                state @ (State::Untouched | State::Evicted) => {
                    self.make_room(wanted.most, buf);
                    match self.own_counted(block, seen, wanted) {
                        Some(own) if state == State::Untouched => self.first_touch(own),
                        Some(own) => self.fill(block, own, buf),
                        None => block..block,
                    }
                }
            };
            if !brought.is_empty() {
                return brought;
            }
        }
    }

    /// Takes ownership of an absent block if its word is still `seen`, and of neighbours in the
    /// same state and chunk, as `wanted` specifies. Returns the owned blocks. Their chunk is open.
    fn own(&self, block: usize, seen: WordValue, wanted: Wanted) -> Option<OwnedRun<'_>> {
        self.open_chunk(block);
        let mut own = own_block(self, block, seen)?;
        // Another thread may have closed the chunk again, because all blocks of the chunk were
        // absent.
        if !self.is_open_around(block) {
            own.release();
            return None;
        }
        let chunk = self.blocks_of_chunk(block);
        let behind = if wanted.side == Side::Before { 1 } else { wanted.most };
        own.grow_behind(chunk.end.min(block.saturating_add(behind)));
        let before = if wanted.side == Side::Behind { 0 } else { wanted.most - own.len() };
        own.grow_before(chunk.start.max(block.saturating_sub(before)));
        Some(own)
    }

    /// Does the same as `own`, and counts the blocks as resident. The blocks are counted before
    /// they are owned, so that simultaneous faults do not exceed the limit together.
    fn own_counted(&self, block: usize, seen: WordValue, wanted: Wanted) -> Option<OwnedRun<'_>> {
        let claimed = self.limit.claim(wanted.most);
        let mut own = self.own(block, seen, Wanted { most: claimed, ..wanted });
        self.limit.settle(claimed, own.as_ref().map_or(0, OwnedRun::len));
        own.iter_mut().for_each(OwnedRun::set_counted);
        own
    }

    /// Opens a block whose pages still exist. Returns the opened block, or an empty range if its
    /// word is no longer `seen`.
    fn keep(&self, block: usize, seen: WordValue) -> Range<usize> {
        let Some(own) = own_block(self, block, seen) else { return block..block };
        self.expect("memory can't be opened again", own.reopen());
        let is_kept = seen.state() == State::Probation;
        count(if is_kept { &self.counters.kept } else { &self.counters.stolen }, 1);
        own.publish(State::Resident, |_, word| {
            word.with_heat((word.heat() + 1).min(HEAT_KEPT_MAX))
        });
        block..block + 1
    }

    /// Makes untouched blocks resident with zeros. Returns the blocks.
    fn first_touch(&self, own: OwnedRun<'_>) -> Range<usize> {
        own.fill_zeros();
        let blocks = own.blocks();
        count(&self.counters.first_touches, blocks.len());
        own.publish(State::Resident, |_, word| word.with_heat(0));
        blocks
    }

    /// Fills evicted blocks from the device, either in place or through `buf`. `touched` is the
    /// block that a thread accessed. Returns the blocks.
    fn fill(&self, touched: usize, own: OwnedRun<'_>, buf: &mut [u8]) -> Range<usize> {
        let (blocks, bytes) = (own.blocks(), self.bytes_of(own.blocks()));
        match self.try_stop_world() {
            Some(alone) => {
                own.fill_in_place(&alone, |place| self.read_back(bytes.start, place));
                count(&self.counters.in_place, blocks.len());
            }
            None => {
                let data = &mut buf[..bytes.len()];
                self.read_back(bytes.start, data);
                own.fill(data);
            }
        }
        count(&self.counters.filled, blocks.len());
        count(&self.counters.ahead, blocks.len() - 1);
        self.note_copies(blocks.clone());
        let now = self.round();
        let rounds = |word: WordValue| now.wrapping_sub(word.heat()) & ROUNDS;
        for word in &self.words[blocks.clone()] {
            let rounds = rounds(word.load());
            count(&self.counters.distances[rounds as usize], 1);
            count(&self.counters.refaults, (rounds <= SOON_ROUNDS).into());
        }
        own.publish(State::Resident, |block, word| {
            let is_hot = rounds(word) <= SOON_ROUNDS && block == touched;
            word.with_heat(if is_hot { HEAT_KEPT_MAX } else { 0 }).with_copy(true)
        });
        blocks
    }

    /// Reads `data` from the device at the offset `at`. Aborts the process if the device fails.
    fn read_back(&self, at: usize, data: &mut [u8]) {
        if let Err(error) = self.device.read(at as u64, data) {
            fatal("a block can't be brought back", &error);
        }
    }

    /// Returns the low bits of the number of the clock's round: as many bits as a block's heat has.
    pub(crate) fn round(&self) -> u32 {
        self.round.load(Relaxed) & ROUNDS
    }
}
