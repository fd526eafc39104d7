//! The thread that evicts ahead of need.
//!
//! # Safety
//! The thread has a share of its pager until it is stopped; a [`Worker`] stands for both.
#![allow(unsafe_code)]

use crate::Error;
use crate::evict::Goal;
use crate::fatal::fatal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::process::generation;
use crate::recent::Spares;
use crate::signals;
use crate::state::HEAT_MAX;
use crate::sync::{idle, wake};
use crate::threads::OwnThread;
use crate::waker::{STOPPED, WANTED};
use page::fork::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Objects are moved together if that frees this share of the device's pages.
const FREEABLE_SHARE: u64 = 8;
/// The bytes of a device's pages that are gone over in one step: some 50 ms.
const WHOLE_MAX: u64 = 64 << 20;
/// Between two looks at that so many steps are made.
const COMPACTED_STEPS: usize = 16;
/// Where the device has many pages, this share of them is freed in one step.
const STEP_SHARE: u64 = 256;
/// Bytes that go before a fork that waits is let in, and others may make room.
const STEP_BYTES: usize = 1 << 20;
/// So long the thread looks for something that can go by now, each time that it tries again.
const AGAIN_TIME: Duration = Duration::from_millis(10);

/// The thread, where it was started.
#[derive(Debug)]
struct Worker {
    thread: JoinHandle<()>,
    generation: u32,
}

/// The thread of this process, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    worker: Mutex<Option<Worker>>,
    /// Whether there is never one: faults make room themselves.
    are_none: bool,
}

impl Workers {
    pub(crate) fn none() -> Self {
        Workers { worker: Mutex::new(None), are_none: true }
    }

    /// Has this process have a thread that evicts, if there is a limit. Where there is none to be
    /// had, faults make room themselves.
    pub(crate) fn ensure(&self, pager: &Arc<Pager>) {
        if self.are_none || pager.limit.get().is_none() {
            return;
        }
        let mut worker = self.worker.lock();
        if !worker.as_ref().is_some_and(Worker::is_here) {
            worker.take().into_iter().for_each(|lost| lost.stop(pager));
            *worker = Worker::start(pager).ok();
            // A child may begin above its limit, and nobody has woken this thread for that.
            if worker.is_some() && pager.limit.is_wanted(0) {
                pager.limit.set_stuck(false);
                pager.waker.wake();
            }
        }
    }

    /// Ends the thread, if there is one.
    pub(crate) fn stop(&self, pager: &Arc<Pager>) {
        self.worker.lock().take().into_iter().for_each(|worker| worker.stop(pager));
    }
}

impl Worker {
    /// Starts the thread.
    fn start(pager: &Arc<Pager>) -> Result<Self, Error> {
        let own = pager.clone();
        let (waker, generation) = (&pager.waker, generation());
        waker.word.store(0, Relaxed);
        // It begins with all signals blocked but the C library's, which others may wait for.
        let spawned = signals::without_programs_signals(|| {
            Builder::new().name("zmem".into()).spawn(move || {
                let _counted = OwnThread::begin();
                if catch_unwind(AssertUnwindSafe(|| own.run())).is_err() {
                    fatal("the thread that evicts", &"it panicked");
                }
            })
        });
        let thread = spawned.map_err(|error| Error::of_thread(&error))?;
        waker.process.store(generation.wrapping_add(1), Relaxed);
        Ok(Worker { thread, generation })
    }

    /// Whether it is a thread of this process, and not of the parent.
    fn is_here(&self) -> bool {
        self.generation == generation()
    }

    /// Ends the thread and waits for it.
    fn stop(self, pager: &Arc<Pager>) {
        if self.is_here() {
            pager.waker.word.fetch_or(STOPPED, AcqRel);
            wake(&pager.waker.word);
            let _panicked = self.thread.join();
            pager.waker.process.store(0, Relaxed);
        } else {
            // The child has no such thread to wait for, which had a share of the pager.
            std::mem::forget(self.thread);
            // SAFETY: `start` gave the thread this share, which it drops when it has been stopped:
            // that was not before the fork, as this has not been called; and it is not here.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(pager)) };
        }
    }
}

impl Pager {
    fn run(&self) {
        // Not a seat's: those may all be taken by faults that wait for this thread.
        let mut buf = vec![0; self.bytes_of(0..self.batch()).len()];
        let mut evicted = 0;
        loop {
            match self.waker.word.load(Acquire) {
                0 if !self.limit.is_wanted(0) => idle(&self.waker.word, 0),
                0 if !self.limit.may_try() => self.waker.nap(self.limit.stuck.left()),
                seen if seen & STOPPED != 0 => return,
                _ => {
                    // Before the limit is looked at: who sets it then wakes anew.
                    self.waker.word.fetch_and(!WANTED, AcqRel);
                    evicted += self.run_steps(&mut buf);
                    if self.limit.is_lost() {
                        self.compact_by(|| self.pack_where_tight());
                    }
                    if evicted >= COMPACTED_STEPS {
                        self.compact(FREEABLE_SHARE);
                        evicted = 0;
                    }
                }
            }
        }
    }

    /// Evicts until enough is free, or nothing can go. Returns how many steps that took.
    fn run_steps(&self, buf: &mut [u8]) -> usize {
        let (is_again, began) = (self.limit.is_stuck(), Instant::now());
        let mut goes_on = self.limit.is_wanted(self.batch()) && self.limit.may_try();
        let first_round = self.round.load(Relaxed);
        let mut steps = 0;
        while goes_on {
            let gone = self.run_step(buf);
            self.compact_by(|| self.pack_where_tight());
            steps += 1;
            // A round for each that the hottest blocks are passed over, and one in which they go.
            let rounds = self.round.load(Relaxed).wrapping_sub(first_round);
            let looks_on = is_again && rounds <= HEAT_MAX && began.elapsed() < AGAIN_TIME;
            if gone == 0 && !looks_on {
                self.limit.stuck.postpone(began.elapsed(), false);
            } else if gone > 0 {
                self.limit.stuck.succeed();
            }
            let is_stopped = self.waker.word.load(Acquire) & STOPPED != 0;
            goes_on = (gone > 0 || looks_on) && !is_stopped && self.limit.is_above_enough();
        }
        steps
    }

    /// Evicts some blocks, and returns how many.
    fn run_step(&self, buf: &mut [u8]) -> usize {
        let gone = signals::without_signals(|| {
            let _inside = GATE.enter();
            let wanted = self.step_units().min(self.units_above_floor());
            self.evict(&mut self.evictor.lock(), Goal::AtLeast(wanted), Spares::Nothing, buf)
        });
        self.waker.step();
        gone
    }

    /// Blocks that a step is of.
    pub(crate) fn step_units(&self) -> usize {
        STEP_BYTES.div_ceil(self.blocks.unit)
    }

    /// Moves some objects of the device together, if that frees this share of its pages; whether
    /// some were freed.
    pub(crate) fn compact(&self, share: u64) -> bool {
        self.compact_by(|| self.pack(share))
    }

    /// Does so where the caller is within the gate, and no signal comes.
    pub(crate) fn pack(&self, share: u64) -> bool {
        let used = self.device.mm_stat().mem_used_total;
        let is_due = self.device.freeable() as u64 > used / share;
        is_due && self.device.shrink(STEP_BYTES.max((used / STEP_SHARE) as usize)) > 0
    }

    /// Moves all objects of a device together that is small, for which what its last pages lack is
    /// much, and that has stored as much as it has since the last time.
    pub(crate) fn compact_whole(&self) {
        self.compact_by(|| {
            let used = self.device.mm_stat().mem_used_total;
            let stored = self.counters.evicted.load(Relaxed) * self.blocks.unit as u64;
            let before = self.compacted.load(Relaxed);
            if used <= WHOLE_MAX && stored.saturating_sub(before) >= used {
                self.compacted.store(stored, Relaxed);
                self.device.compact();
            }
        });
    }

    fn compact_by<T>(&self, compact: impl FnOnce() -> T) -> T {
        signals::without_signals(|| {
            let _inside = GATE.enter();
            let compacted = compact();
            self.weigh();
            compacted
        })
    }
}
