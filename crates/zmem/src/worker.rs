//! The pager thread, which evicts in the background.
//!
//! # Safety
//! The thread has a reference to its pager until the thread is stopped. A [`Worker`] owns the
//! thread and the reference.
#![allow(unsafe_code)]

use crate::Error;
use crate::error::fatal;
use crate::evict::{self, Goal};
use crate::gate::GATE;
use crate::pager::Pager;
use crate::policy::{AGAIN_TIME, COMPACTED_STEPS, FREEABLE_SHARE};
use crate::process::generation;
use crate::recent::Spares;
use crate::room;
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
use std::time::Instant;

/// A pager thread that was started.
#[derive(Debug)]
struct Worker {
    thread: JoinHandle<()>,
    generation: u32,
}

/// The pager thread of this process, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    worker: Mutex<Option<Worker>>,
    /// If true, no pager thread is ever started, and faults evict blocks themselves.
    are_none: bool,
}

impl Workers {
    pub(crate) fn none() -> Self {
        Workers { worker: Mutex::new(None), are_none: true }
    }

    /// Starts a pager thread if this process has a limit and no such thread. If the start fails,
    /// faults evict blocks themselves.
    pub(crate) fn ensure(&self, pager: &Arc<Pager>) {
        if self.are_none || pager.limit.get().is_none() {
            return;
        }
        let mut worker = self.worker.lock();
        if !worker.as_ref().is_some_and(Worker::is_here) {
            worker.take().into_iter().for_each(|missing| missing.stop(pager));
            *worker = Worker::start(pager).ok();
            // A child may begin above its limit, and no fault has yet woken its thread to evict.
            if worker.is_some() && pager.limit.is_wanted(0) {
                pager.limit.set_no_progress(false);
                pager.waker.wake();
            }
        }
    }

    /// Ends the pager thread, if there is one.
    pub(crate) fn stop(&self, pager: &Arc<Pager>) {
        self.worker.lock().take().into_iter().for_each(|worker| worker.stop(pager));
    }
}

impl Worker {
    /// Starts the pager thread.
    fn start(pager: &Arc<Pager>) -> Result<Self, Error> {
        let own = pager.clone();
        let (waker, generation) = (&pager.waker, generation());
        waker.word.store(0, Relaxed);
        // The thread blocks all signals except those that the C library uses itself, because other
        // threads may wait until the thread has handled one of these.
        let spawned = signals::without_programs_signals(|| {
            Builder::new().name("zmem".into()).spawn(move || {
                let _counted = OwnThread::begin();
                if catch_unwind(AssertUnwindSafe(|| run(&own))).is_err() {
                    fatal("the thread that evicts", &"it panicked");
                }
            })
        });
        let thread = spawned.map_err(|error| Error::of_thread(&error))?;
        waker.process.store(generation.wrapping_add(1), Relaxed);
        Ok(Worker { thread, generation })
    }

    /// Returns whether the thread belongs to this process, and not to its parent.
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
            // The child lacks this thread, which held a reference to the pager.
            std::mem::forget(self.thread);
            // SAFETY: `start` gave this reference to the thread, which drops it only after it was
            // stopped. The thread was not stopped before the fork, because this function was not
            // called, and the thread does not run in the child.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(pager)) };
        }
    }
}

fn run(pager: &Pager) {
    // The buffer is not in a context, because faults that wait for this thread may hold all
    // contexts.
    let mut buf = vec![0; pager.bytes_of(0..pager.batch()).len()];
    let mut evicted = 0;
    loop {
        match pager.waker.word.load(Acquire) {
            0 if !pager.limit.is_wanted(0) => idle(&pager.waker.word, 0),
            0 if !pager.limit.may_try() => pager.waker.nap(pager.limit.no_progress.left()),
            seen if seen & STOPPED != 0 => return,
            _ => {
                // The bit is cleared before the limit is read: a thread that sets the limit
                // later wakes this thread again.
                pager.waker.word.fetch_and(!WANTED, AcqRel);
                evicted += run_steps(pager, &mut buf);
                if pager.limit.is_over_limit() {
                    room::compact_by(pager, |packing| room::pack_if_tight(pager, packing));
                }
                if evicted >= COMPACTED_STEPS {
                    room::compact(pager, FREEABLE_SHARE);
                    evicted = 0;
                }
            }
        }
    }
}

/// Evicts until enough memory is free, or nothing can be evicted. Returns the number of steps.
fn run_steps(pager: &Pager, buf: &mut [u8]) -> usize {
    let (is_again, began) = (pager.limit.has_no_progress(), Instant::now());
    let mut goes_on = pager.limit.is_wanted(pager.batch()) && pager.limit.may_try();
    let first_round = pager.round.load(Relaxed);
    let mut steps = 0;
    while goes_on {
        let gone = run_step(pager, buf);
        room::compact_by(pager, |packing| room::pack_if_tight(pager, packing));
        steps += 1;
        // The number of rounds in which the hottest blocks are passed over, plus the round that
        // evicts them.
        let rounds = pager.round.load(Relaxed).wrapping_sub(first_round);
        let looks_on = is_again && rounds <= HEAT_MAX && began.elapsed() < AGAIN_TIME;
        if gone == 0 && !looks_on {
            pager.limit.no_progress.postpone(began.elapsed(), false);
        } else if gone > 0 {
            pager.limit.no_progress.succeed();
        }
        let is_stopped = pager.waker.word.load(Acquire) & STOPPED != 0;
        goes_on = (gone > 0 || looks_on) && !is_stopped && pager.limit.is_above_enough();
    }
    steps
}

/// Evicts the blocks of one step. Returns the number of evicted blocks.
fn run_step(pager: &Pager, buf: &mut [u8]) -> usize {
    let gone = signals::without_signals(|| {
        let _inside = GATE.enter();
        let wanted = pager.step_blocks().min(room::blocks_above_floor(pager));
        evict::evict(
            pager,
            &mut pager.eviction_lock.lock(),
            Goal::AtLeast(wanted),
            Spares::Nothing,
            buf,
        )
    });
    pager.waker.step();
    gone
}
