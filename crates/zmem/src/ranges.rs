//! What is asked for ranges of blocks, from outside of handlers.

use crate::Error;
use crate::pager::Pager;
use crate::policy::{HEAT_KEPT_MAX, PIECE};
use crate::state::{HEAT_MAX, State};
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Pager {
    /// Has all blocks be resident, of memory that is in use, before anyone else knows of it.
    pub(crate) fn take_over(&self) {
        self.open_all_chunks();
        self.words.iter().for_each(|word| word.begin_resident());
        self.limit.add(self.units());
    }

    /// Evicts so many blocks; how many went.
    pub(crate) fn reclaim(&self, units: usize, buf: &mut [u8]) -> usize {
        let (mut evictor, mut gone) = (self.evictor.lock(), 0);
        // A block that was refused is passed over for some rounds, more than one call makes.
        for _ in 0..=HEAT_MAX / HEAT_KEPT_MAX {
            if gone < units {
                gone += self.evict(&mut evictor, units - gone, buf);
            }
        }
        gone
    }

    /// Brings blocks back.
    pub(crate) fn prefetch(&self, units: Range<usize>, buf: &mut [u8]) {
        let mut next = units.start;
        while next < units.end {
            let wanted = self.batch().min(units.end - next);
            next += self.bring(next, wanted, buf).max(1);
        }
    }

    /// Brings blocks back that the clock is to pass.
    pub(crate) fn heat(&self, units: Range<usize>, buf: &mut [u8]) {
        self.prefetch(units.clone(), buf);
        for word in &self.words[units] {
            let _gone = word.try_change(word.load(), |seen| seen.with_heat(HEAT_KEPT_MAX));
        }
    }

    /// Has blocks be resident, and stay so until `unpin`.
    pub(crate) fn pin(&self, units: Range<usize>, buf: &mut [u8]) -> Result<(), Error> {
        for unit in units.clone() {
            loop {
                let seen = self.words[unit].load();
                match seen.state() {
                    State::Resident if seen.pins() == crate::state::PINS_MAX => {
                        self.unpin(units.start..unit);
                        return Err(Error::Locked { at: self.bytes_of(unit..unit).start });
                    }
                    State::Resident if self.words[unit].try_pin(seen) => break,
                    State::Resident => {}
                    _ => _ = self.bring(unit, self.batch().min(units.end - unit), buf),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn unpin(&self, units: Range<usize>) {
        self.words[units].iter().for_each(|word| word.unpin());
    }

    /// Makes blocks zeros that take no memory.
    pub(crate) fn dont_need(&self, units: Range<usize>) -> Result<(), Error> {
        let mut next = units.start;
        while next < units.end {
            let seen = self.words[next].load();
            match seen.state() {
                State::Untouched => next += 1,
                State::Busy => self.words[next].wait(seen),
                _ if seen.pins() > 0 => {
                    return Err(Error::Locked { at: self.bytes_of(next..next).start });
                }
                state => {
                    let taken = self.own_alike(next..units.end, state);
                    self.drop_owned(taken.clone(), state);
                    next = taken.end;
                }
            }
        }
        Ok(())
    }

    /// Owns blocks from the first on that have this state and no pins.
    fn own_alike(&self, units: Range<usize>, state: State) -> Range<usize> {
        let is_taken = |unit: &usize| {
            let seen = self.words[*unit].load();
            seen.state() == state && seen.pins() == 0 && self.words[*unit].try_own(seen)
        };
        let count = units.clone().take(PIECE).take_while(is_taken).count();
        units.start..units.start + count
    }

    /// Has blocks be zeros that were in this state, and are the caller's own.
    fn drop_owned(&self, own: Range<usize>, state: State) {
        if own.is_empty() {
            return;
        }
        match state {
            // What the device has of it, nobody reads any more.
            State::Evicted => self.note_copies(own.clone()),
            _ => {
                self.closings.fetch_add(1, SeqCst);
                let dropped = self.backend.drop_pages(&self.memory, self.bytes_of(own.clone()));
                self.expect("memory can't be marked", dropped);
                self.limit.sub(own.len());
            }
        }
        if state == State::Probation {
            self.probation.fetch_sub(own.len(), Relaxed);
        }
        for unit in own {
            self.words[unit].publish(State::Untouched, |word| {
                let has_copy = word.has_copy() || state == State::Evicted;
                word.with_heat(0).with_copy(has_copy)
            });
        }
    }

    /// Asserts that counts equal sums over blocks that nobody changes meanwhile.
    pub(crate) fn check(&self) {
        let evictor = self.evictor.lock();
        let states =
            |wanted: State| self.words.iter().filter(|word| word.load().state() == wanted).count();
        assert_eq!((states(State::Busy), states(State::Evicting)), (0, 0), "owned by no one");
        let probation = states(State::Probation);
        assert_eq!(self.probation.load(Relaxed), probation, "in probation");
        assert_eq!(self.limit.resident(), probation + states(State::Resident), "resident");
        let has_live = |unit: usize| self.words[unit].load().state() == State::Evicted;
        let unit = self.blocks.unit / zram::SLOT_BYTES;
        for state in self.device.block_state() {
            let unit = state.index as usize / unit;
            assert!(has_live(unit) || self.words[unit].load().has_copy(), "block {unit} is stored");
        }
        self.device.check();
        drop(evictor);
    }
}
