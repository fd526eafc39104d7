//! Room for what a fault brings: made by the thread that evicts, or by who needs it where there is
//! no such thread.

use crate::evict::Goal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::recent::Spares;
use crate::sync::wait_for;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// A fault waits so long for a step of another thread that makes room, and goes on then (zm-H4).
const ROOM_TIME: Duration = Duration::from_millis(100);
/// And so long in all, where others take all room that is made.
const ROOM_TIME_MAX: Duration = Duration::from_secs(1);
const ROOM_TICK: Duration = Duration::from_millis(1);
/// Where room is tight, the device is packed if that frees this share of its pages.
const GAIN_SHARE: u64 = 32;
/// And where the limit is lost, this one.
const LOST_GAIN_SHARE: u64 = 128;
/// Evictions of less than this share of what was wanted were in vain.
const VAIN_SHARE: usize = 4;
/// After it was, this many times as long passes until it is again.
const PACK_PAUSE: u32 = 16;
/// What is longer was not spent on it: the process was stopped.
const PACK_TIME_MAX: Duration = Duration::from_millis(200);

impl Pager {
    /// Has room be made where the limit is lower by now, or more can go: by the thread, or, where
    /// there is none, by `evict`, which is told how many blocks are to go, and says how many have.
    pub(crate) fn seek_room(&self, mut evict: impl FnMut(usize) -> usize) {
        self.limit.set_stuck(false);
        if self.limit.is_wanted(0) && !self.waker.wake() {
            while self.limit.is_above_enough() && evict(self.step_units()) > 0 {}
        }
    }

    /// Whether a fault makes room itself, where there is a limit: there is no thread that does. So
    /// it takes note of what it brings, which is a write to memory that all threads share.
    pub(crate) fn makes_room_itself(&self) -> bool {
        self.limit.get().is_some() && !self.waker.has_thread()
    }

    /// Sees to it that so many blocks may become resident. The caller owns no block, and has a
    /// seat's buffer.
    pub(crate) fn make_room(&self, units: usize, buf: &mut [u8]) {
        self.limit.weigh_now_and_then();
        if self.limit.is_lost() {
            self.regain_limit();
        }
        if !self.limit.is_wanted(units) {
            return;
        }
        // Where nothing can go, more is tried as more has come, or by and by.
        if self.limit.is_stuck() && (self.waker.watch() || !self.limit.may_try()) {
            return;
        }
        if self.waker.wake() {
            return self.wait_for_room(units);
        }
        let is_full = self.limit.is_full(units);
        if self.limit.wants_of_others() && !is_full {
            return;
        }
        // Who has the lock waits for nobody who waits here (zm-S4); a copy may lack that thread.
        let waits = is_full && !GATE.is_torn();
        let evictor = if waits { Some(self.evictor.lock()) } else { self.evictor.try_lock() };
        if let Some(mut evictor) = evictor.filter(|_| self.limit.is_wanted(units)) {
            // A child that is far above its limit comes down by larger steps.
            let least = if self.limit.is_passed() { self.step_units() } else { self.batch() };
            let wanted = least.min(self.units_above_floor()).max(units);
            let goal = Goal::AtLeast(wanted);
            self.paced(wanted, || self.evict(&mut evictor, goal, Spares::Recent, buf));
            drop(evictor);
            if self.is_heap_own {
                self.pack_where_tight();
            }
        }
    }

    /// Calls `evict`, and notes whether it was in vain: it evicted few of the `wanted` blocks, or
    /// they came back because they did not compress. Each next fault or call would try them all.
    pub(crate) fn paced(&self, wanted: usize, evict: impl FnOnce() -> usize) {
        let returned = || self.storer.returned.load(Relaxed);
        let dense = || self.counters.incompressible.load(Relaxed);
        let (began, before, dense_before) = (Instant::now(), returned(), dense());
        let gone = evict().saturating_sub((returned() - before) as usize);
        if gone < wanted.div_ceil(VAIN_SHARE) {
            self.limit.postpone(began.elapsed(), dense() > dense_before);
        } else {
            self.limit.stuck.succeed();
        }
    }

    /// Returns how many blocks may go until the floor is reached, and a batch at least.
    pub(crate) fn units_above_floor(&self) -> usize {
        let above = self.limit.above_floor() as usize / self.blocks.unit;
        above.max(self.batch())
    }

    /// Takes account of what was freed, which an eviction does else: there may be none, as no more
    /// than the floor is left.
    fn regain_limit(&self) {
        if let Some(_evictor) = self.evictor.try_lock() {
            self.drop_copies();
            self.weigh();
        }
        if self.is_heap_own {
            self.pack_where_tight();
        } else {
            self.waker.wake();
        }
    }

    /// Moves some objects of the device together where what can't go leaves little room: a block
    /// that stays is worth more then than the time. The caller is within the gate, and no signal
    /// comes. That allocates, so it is not for faults that may have interrupted the allocator.
    pub(crate) fn pack_where_tight(&self) {
        // One thread at a time.
        let Some(mut packs_from) = self.packs_from.try_lock() else { return };
        let began = Instant::now();
        if packs_from.is_some_and(|from| began < from) || !self.limit.is_tight() {
            return;
        }
        let share = if self.limit.is_lost() { LOST_GAIN_SHARE } else { GAIN_SHARE };
        self.pack(share);
        self.weigh();
        let took = began.elapsed().min(PACK_TIME_MAX);
        *packs_from = Some(began + took * (PACK_PAUSE + 1));
    }

    /// Waits until the thread has made room, finds none, or does nothing for long; or a fork keeps
    /// it out, which waits for who waits here.
    fn wait_for_room(&self, units: usize) {
        let began = Instant::now();
        let (mut last_step, mut steps) = (began, self.waker.steps.load(Acquire));
        while self.limit.is_full(units) && !self.limit.is_stuck() && !GATE.is_closed() {
            wait_for(&self.waker.steps, steps, ROOM_TICK);
            let (now, seen) = (Instant::now(), self.waker.steps.load(Acquire));
            if seen != steps {
                (last_step, steps) = (now, seen);
            }
            if now - last_step > ROOM_TIME || now - began > ROOM_TIME_MAX {
                return;
            }
            self.waker.wake();
        }
    }
}
