//! The pager thread, which evicts in the background.

use crate::background::{STOPPED, WANTED};
use crate::evict::{self, Goal};
use crate::gate::inside;
use crate::limit::evictable;
use crate::pager::Pager;
use crate::pager_thread::PagerThread;
use crate::policy::{AGAIN_TIME, COMPACTED_STEPS, FREEABLE_SHARE};
use crate::process::generation;
use crate::recent::Spares;
use crate::room::{self, Waits};
use crate::state::HEAT_MAX;
use crate::sync::{idle, wake};
use page::fork::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Instant;

/// The pager thread of a pager, if it was started.
#[derive(Debug, Default)]
pub(crate) struct Workers(Mutex<Option<PagerThread>>);

impl Workers {
    /// Starts the pager thread if there is a limit and this process has no pager thread. An arena
    /// has no pager thread. If the start fails, faulting threads evict, as in an arena.
    pub(crate) fn ensure(&self, pager: &Arc<Pager>) {
        if pager.is_heap_own || pager.limit.get().is_none() {
            return;
        }
        let mut worker = self.0.lock();
        if !worker.as_ref().is_some_and(PagerThread::is_here) {
            worker.take().into_iter().for_each(|missing| missing.join(pager));
            pager.waker.word.store(0, Relaxed);
            *worker = PagerThread::start(pager, "zmem", "the thread that evicts", run).ok();
            if worker.is_some() {
                pager.waker.process.store(generation().wrapping_add(1), Relaxed);
            }
            // A child may begin above its limit, and no fault has woken the new thread yet.
            if worker.is_some() && pager.limit.is_wanted(0) {
                pager.limit.set_no_progress(false);
                pager.waker.wake();
            }
        }
    }

    pub(crate) fn stop(&self, pager: &Arc<Pager>) {
        let Some(worker) = self.0.lock().take() else { return };
        if worker.is_here() {
            pager.waker.word.fetch_or(STOPPED, AcqRel);
            wake(&pager.waker.word);
        }
        worker.join(pager);
        pager.waker.process.store(0, Relaxed);
    }
}

fn run(pager: &Pager) {
    // The pager thread has a buffer of its own, because faults that wait for this thread may hold
    // all contexts.
    let mut buf = vec![0; pager.bytes_of(0..pager.batch()).len()];
    let mut evicted = 0;
    loop {
        match pager.waker.word.load(Acquire) {
            0 if !pager.limit.is_wanted(0) => idle(&pager.waker.word, 0),
            0 if !pager.limit.may_try() => pager.waker.nap(pager.limit.no_progress.left()),
            seen if seen & STOPPED != 0 => return,
            _ => {
                // The bit is cleared before the limit is read. So a thread that changes the limit
                // after this read wakes this thread again.
                pager.waker.word.fetch_and(!WANTED, AcqRel);
                evicted += run_steps(pager, &mut buf);
                if evictable::is_over_limit(&pager.limit) {
                    room::pack_by(pager, Waits::Never, |packing| {
                        room::pack_if_tight(pager, packing)
                    });
                }
                let is_due = evicted >= COMPACTED_STEPS;
                if is_due && room::compact(pager, Waits::Never, FREEABLE_SHARE).is_some() {
                    evicted = 0;
                }
            }
        }
    }
}

/// Evicts until enough memory is free or nothing more can be evicted. Returns the number of
/// eviction steps.
fn run_steps(pager: &Pager, buf: &mut [u8]) -> usize {
    let (is_again, began) = (pager.limit.has_no_progress(), Instant::now());
    let mut goes_on = pager.limit.is_wanted(pager.batch()) && pager.limit.may_try();
    let first_round = pager.round.load(Relaxed);
    let mut steps = 0;
    while goes_on {
        let gone = run_step(pager, buf);
        room::pack_by(pager, Waits::Never, |packing| room::pack_if_tight(pager, packing));
        steps += 1;
        // After an unsuccessful eviction, the search lasts for all rounds that skip the hottest
        // blocks, plus the round that evicts these blocks.
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

/// Performs one eviction step. Returns the number of evicted blocks.
fn run_step(pager: &Pager, buf: &mut [u8]) -> usize {
    let gone = inside(|| {
        let wanted = pager.step_blocks().min(room::blocks_above_floor(pager));
        let clock = &mut pager.eviction_lock.lock();
        evict::evict(pager, clock, Goal::AtLeast(wanted), Spares::Nothing, buf)
    });
    pager.waker.step();
    gone
}
