//! The word of a block, which holds the block's state, heat, pins and two flags.
//!
//! ```text
//!   31 .. 16   15 .. 12   11 .. 6   5      4            3 .. 0
//!   | pins   | heat     | 0       | copy | waited for | state |
//! ```
//! A thread sets the state `Busy` by one compare-and-swap. Then this thread owns the block until it
//! publishes another state (zm-S1). While a block is `Busy`, other threads are allowed to set the
//! bit *waited for* and to remove pins, but change nothing else.

#[cfg(all(test, loom))]
mod loom_tests;

use crate::sync::{AtomicU32, Ordering, wait, wake};

const STATE: u32 = 15;
const WAITED: u32 = 1 << 4;
const COPY: u32 = 1 << 5;
const HEAT_SHIFT: u32 = 12;
const HEAT: u32 = 15 << HEAT_SHIFT;
const PIN: u32 = 1 << 16;

/// Numbers by which other crates interpret the word of a block. They are the state of a resident
/// block, the state of a plain block, and the value of one pin. A word holds the state in its low 4
/// bits.
pub const WORD_LAYOUT: [u32; 3] = [State::Resident as u32, State::Plain as u32, PIN];

/// The maximum heat of a block. The heat is the number of rounds in which the clock's hand skips
/// the block.
pub(crate) const HEAT_MAX: u32 = 15;
/// The maximum number of pins of a block.
pub(crate) const PINS_MAX: u32 = u32::MAX / PIN;

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The block has no page. An access faults, and then reads zeros.
    Untouched,
    /// The block is readable and writable, with its data in memory.
    Resident,
    /// The block is cold, with its data in memory. An access (with some backends only a write)
    /// makes the block resident.
    Probation,
    /// The block was in probation, and is being stored on the device.
    Evicting,
    /// The block has no page, and is stored on the device. An access faults.
    Evicted,
    /// One thread owns the block and changes it, or the block is queued (zm-Q1).
    Busy,
    /// The block is in an arena, and the program does not use it. This crate does not handle faults
    /// on the block.
    Free,
    /// The block is in an arena, and part of the program's own mapping. This crate does not access
    /// it.
    Plain,
    /// The block was closed at a fork. Parent and child share the pages with the block's data
    /// (zm-L16). An access makes the block resident.
    Shared,
}

impl State {
    /// Returns whether blocks in this state count as resident.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, State::Resident | State::Probation | State::Evicting | State::Shared)
    }

    /// Returns whether blocks in this state have no page.
    pub(crate) fn is_absent(self) -> bool {
        matches!(self, State::Untouched | State::Evicted | State::Free)
    }
}

/// The value of a block's word at the time of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordValue(u32);

impl WordValue {
    pub(crate) fn state(self) -> State {
        use State::*;
        let all = [Untouched, Resident, Probation, Evicting, Evicted, Busy, Free, Plain, Shared];
        all[(self.0 & STATE) as usize]
    }

    pub(crate) fn heat(self) -> u32 {
        (self.0 & HEAT) >> HEAT_SHIFT
    }

    pub(crate) fn pins(self) -> u32 {
        self.0 / PIN
    }

    /// Returns whether the block is resident and pinned.
    pub(crate) fn is_kept(self) -> bool {
        self.state() == State::Resident && self.pins() > 0
    }

    /// Returns whether the block is resident and not pinned.
    pub(crate) fn is_evictable(self) -> bool {
        self.state() == State::Resident && self.pins() == 0
    }

    /// Returns whether the device holds a copy of the block.
    pub(crate) fn has_copy(self) -> bool {
        self.0 & COPY != 0
    }

    fn with_state(self, state: State) -> Self {
        WordValue(self.0 & !STATE | state as u32)
    }

    pub(crate) fn with_heat(self, heat: u32) -> Self {
        WordValue(self.0 & !HEAT | heat.min(HEAT_MAX) << HEAT_SHIFT)
    }

    pub(crate) fn with_copy(self, has_copy: bool) -> Self {
        WordValue(self.0 & !COPY | if has_copy { COPY } else { 0 })
    }
}

/// The word of a block. The value 0 is the state `Untouched`.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct BlockWord(AtomicU32);

impl BlockWord {
    #[cfg(all(test, loom))]
    pub(crate) fn new(state: State) -> Self {
        BlockWord(AtomicU32::new(state as u32))
    }

    pub(crate) fn begin_resident(&self) {
        self.0.store(State::Resident as u32, Ordering::Relaxed);
    }

    /// Makes a block of an arena free while the block's chunk is being opened. Waits while another
    /// thread owns the block. That thread releases the block at once, because the chunk is not
    /// open.
    pub(crate) fn begin_free(&self) {
        self.change(|seen| seen.with_state(State::Free));
    }

    fn change(&self, change: impl Fn(WordValue) -> WordValue) {
        loop {
            let seen = self.load();
            match seen.state() {
                State::Busy => self.wait(seen),
                _ if self.step(seen, change(seen)) => return,
                _ => {}
            }
        }
    }

    /// Makes the block resident and pins it permanently, in a child that still has one thread.
    #[cfg(not(loom))]
    pub(crate) fn keep(&self) {
        let kept = self.load().with_state(State::Resident);
        self.0.store(kept.0.saturating_add(PIN), Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> WordValue {
        WordValue(self.0.load(Ordering::Acquire))
    }

    fn step(&self, seen: WordValue, next: WordValue) -> bool {
        self.0.compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Makes the caller the owner of the block if the word is still `seen`. The state of `seen` is
    /// not `Busy`.
    pub(crate) fn try_own(&self, seen: WordValue) -> bool {
        debug_assert!(seen.state() != State::Busy);
        self.step(seen, seen.with_state(State::Busy))
    }

    /// Changes the state from `Probation` to `Evicting` if the word is still `seen`. An `Evicting`
    /// block has no owner.
    pub(crate) fn try_begin_evicting(&self, seen: WordValue) -> bool {
        debug_assert!(seen.state() == State::Probation);
        self.step(seen, seen.with_state(State::Evicting))
    }

    /// Makes the caller the owner of an `Evicting` block that the caller has stored. Returns false
    /// if a thread has accessed the block.
    pub(crate) fn try_end_evicting(&self) -> bool {
        let mut seen = self.load();
        while seen.state() == State::Evicting {
            if self.try_own(seen) {
                return true;
            }
            seen = self.load();
        }
        false
    }

    /// Ends the caller's ownership. Sets the state, changes the other bits by `change`, and wakes
    /// threads that wait for the block.
    pub(crate) fn publish(&self, state: State, change: impl Fn(WordValue) -> WordValue) {
        debug_assert!(self.load().state() == State::Busy && state != State::Busy);
        // Other threads may remove pins at the same time.
        let next = |word: u32| Some(change(WordValue(word & !WAITED).with_state(state)).0);
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if before.is_ok_and(|before| before & WAITED != 0) {
            wake(&self.0);
        }
    }

    /// Waits until the block's owner publishes a state. The wait can end early.
    pub(crate) fn wait(&self, seen: WordValue) {
        debug_assert!(seen.state() == State::Busy);
        let waited = WordValue(seen.0 | WAITED);
        if seen == waited || self.step(seen, waited) {
            wait(&self.0, waited.0);
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn wait_for(&self, seen: WordValue, time: std::time::Duration) {
        let waited = WordValue(seen.0 | WAITED);
        if seen == waited || self.step(seen, waited) {
            crate::sync::wait_for(&self.0, waited.0, time);
        }
    }

    /// Adds a pin to a block that is not `Busy`, if the word is still `seen` and has space for a
    /// pin.
    pub(crate) fn try_pin(&self, seen: WordValue) -> bool {
        debug_assert!(seen.state() != State::Busy);
        seen.pins() < PINS_MAX && self.step(seen, WordValue(seen.0 + PIN))
    }

    pub(crate) fn unpin(&self) {
        let before = WordValue(self.0.fetch_sub(PIN, Ordering::AcqRel));
        debug_assert!(before.pins() > 0);
    }

    /// Changes bits other than the state, if the word is still `seen` and the block is not `Busy`.
    pub(crate) fn try_change(
        &self,
        seen: WordValue,
        change: impl FnOnce(WordValue) -> WordValue,
    ) -> bool {
        seen.state() != State::Busy && self.step(seen, change(seen))
    }

    /// Records whether the device holds a copy of the block.
    pub(crate) fn set_copy(&self, has_copy: bool) {
        self.change(|seen| seen.with_copy(has_copy));
    }
}
