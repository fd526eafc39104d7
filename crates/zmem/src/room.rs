//! Makes room for the blocks that a fault fills: the pager thread evicts other blocks, or the
//! faulting thread does so if there is no pager thread.

use crate::evict::Goal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::recent::Spares;
use crate::sync::wait_for;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// The maximum time that a fault waits for a step of the pager thread (zm-H4).
const ROOM_TIME: Duration = Duration::from_millis(100);
/// The maximum time that a fault waits in all, if other threads use all the room that is made.
const ROOM_TIME_MAX: Duration = Duration::from_secs(1);
const ROOM_TICK: Duration = Duration::from_millis(1);
/// If the limit is almost reached, the device is packed if that frees 1/`GAIN_SHARE` of its pages.
const GAIN_SHARE: u64 = 32;
/// If the limit can't be kept, the device is packed if that frees 1/`LOST_GAIN_SHARE` of its pages.
const LOST_GAIN_SHARE: u64 = 128;
/// An eviction was in vain if it evicted less than 1/`VAIN_SHARE` of the requested blocks.
const VAIN_SHARE: usize = 4;
/// The pause after packing, as a multiple of the time that the packing took.
const PACK_PAUSE: u32 = 16;
/// The maximum packing time from which the pause is computed. If packing took longer, the process
/// is assumed to have been stopped during the packing.
const PACK_TIME_MAX: Duration = Duration::from_millis(200);

impl Pager {
    /// Makes room after the limit was lowered, or more blocks became evictable. Wakes the pager
    /// thread, or calls `evict` if there is no such thread. `evict` gets the number of blocks to
    /// evict and returns the number of evicted ones.
    pub(crate) fn seek_room(&self, mut evict: impl FnMut(usize) -> usize) {
        self.limit.set_stuck(false);
        if self.limit.is_wanted(0) && !self.waker.wake() {
            while self.limit.is_above_enough() && evict(self.step_blocks()) > 0 {}
        }
    }

    /// Returns true if there is a limit and no pager thread, so a fault evicts blocks itself. Such
    /// a fault also records the blocks that it fills, which writes to memory that all threads
    /// share.
    pub(crate) fn makes_room_itself(&self) -> bool {
        self.limit.get().is_some() && !self.waker.has_thread()
    }

    /// Makes room for `blocks` more resident blocks. The caller owns no block, and holds the buffer
    /// of a context.
    pub(crate) fn make_room(&self, blocks: usize, buf: &mut [u8]) {
        self.limit.weigh_now_and_then();
        if self.limit.is_lost() {
            self.regain_limit();
        }
        if !self.limit.is_wanted(blocks) {
            return;
        }
        // If nothing can be evicted, the next attempt is made when more blocks have become
        // resident, or after a pause.
        if self.limit.is_stuck() && (self.waker.watch() || !self.limit.may_try()) {
            return;
        }
        if self.waker.wake() {
            return self.wait_for_room(blocks);
        }
        let is_full = self.limit.is_full(blocks);
        if self.limit.wants_of_others() && !is_full {
            return;
        }
        // The thread that holds the lock does not wait for any thread that waits here (zm-S4). In a
        // copy of the process, the thread that holds the lock may be missing.
        let waits = is_full && !GATE.is_torn();
        let clock =
            if waits { Some(self.eviction_lock.lock()) } else { self.eviction_lock.try_lock() };
        if let Some(mut clock) = clock.filter(|_| self.limit.is_wanted(blocks)) {
            // A child that is far above its limit evicts in larger steps.
            let least = if self.limit.is_passed() { self.step_blocks() } else { self.batch() };
            let wanted = least.min(self.blocks_above_floor()).max(blocks);
            let goal = Goal::AtLeast(wanted);
            self.paced(wanted, || self.evict(&mut clock, goal, Spares::Recent, buf));
            drop(clock);
            if self.is_heap_own {
                self.pack_where_tight();
            }
        }
    }

    /// Calls `evict`, and records whether the eviction was in vain: few of the `wanted` blocks were
    /// evicted, or the blocks became resident again because they did not compress. Without the
    /// record, each following fault or call would try to evict all of these blocks again.
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

    /// Returns the number of resident blocks above the floor, or the number of blocks in a batch if
    /// that is larger.
    pub(crate) fn blocks_above_floor(&self) -> usize {
        let above = self.limit.above_floor() as usize / self.sizes.block;
        above.max(self.batch())
    }

    /// Counts memory that was freed, and frees copies. An eviction would do the same, but no
    /// eviction happens if only the floor is resident.
    fn regain_limit(&self) {
        if let Some(_lock) = self.eviction_lock.try_lock() {
            self.drop_copies();
            self.weigh();
        }
        if self.is_heap_own {
            self.pack_where_tight();
        } else {
            self.waker.wake();
        }
    }

    /// Moves objects of the device together if memory that can't be evicted leaves little room. In
    /// that case, each further block that can stay resident is worth the time of packing. The
    /// caller is inside the gate with signals blocked. Packing allocates, so faults that may have
    /// interrupted the allocator must not call this function.
    pub(crate) fn pack_where_tight(&self) {
        // One thread at a time packs.
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

    /// Waits until the pager thread has made room, finds no block to evict, or makes no step for
    /// `ROOM_TIME`. Also returns if a fork has closed the gate, because the fork keeps the pager
    /// thread out and waits for this thread.
    fn wait_for_room(&self, blocks: usize) {
        let began = Instant::now();
        let (mut last_step, mut steps) = (began, self.waker.steps.load(Acquire));
        while self.limit.is_full(blocks) && !self.limit.is_stuck() && !GATE.is_closed() {
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
