//! The thread that evicts ahead of need, and who makes room without it.

use crate::Error;
use crate::fatal::fatal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::signals;
use crate::sync::{wait, wait_for, wake};
use crate::waker::{STOPPED, WANTED};
use page::fork::{Mutex, generation};
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A fault waits so long for a step of another thread that makes room, and goes on then (zm-H4).
const ROOM_TIME: Duration = Duration::from_millis(100);
/// And so long in all, where others take all room that is made.
const ROOM_TIME_MAX: Duration = Duration::from_secs(1);
const ROOM_TICK: Duration = Duration::from_millis(1);
/// Objects are moved together if that frees this share of the device's pages.
const FREEABLE_SHARE: u64 = 8;
/// Between two looks at that so many steps are made.
const COMPACTED_STEPS: usize = 16;
/// Bytes that go before a fork that waits is let in, and others may make room.
const STEP_BYTES: usize = 1 << 20;

/// The thread, where it was started.
#[derive(Debug)]
struct Worker {
    thread: JoinHandle<()>,
    generation: u32,
}

/// The thread of this process, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Workers(Mutex<Option<Worker>>);

impl Workers {
    /// Has this process have a thread that evicts, if there is a limit. Where there is none to be
    /// had, faults make room themselves.
    pub(crate) fn ensure(&self, pager: &Arc<Pager>) {
        if pager.limit.get().is_none() {
            return;
        }
        let mut worker = self.0.lock();
        if !worker.as_ref().is_some_and(Worker::is_here) {
            worker.take().into_iter().for_each(|lost| lost.stop(pager));
            *worker = Worker::start(pager).ok();
        }
    }

    /// Ends the thread, if there is one.
    pub(crate) fn stop(&self, pager: &Pager) {
        self.0.lock().take().into_iter().for_each(|worker| worker.stop(pager));
    }
}

impl Worker {
    /// Starts the thread.
    fn start(pager: &Arc<Pager>) -> Result<Self, Error> {
        let own = pager.clone();
        let (waker, generation) = (&pager.waker, generation());
        waker.word.store(0, Relaxed);
        // It begins with all signals blocked.
        let spawned = signals::without_signals(|| {
            Builder::new().name("zmem".into()).spawn(move || {
                if catch_unwind(AssertUnwindSafe(|| own.run())).is_err() {
                    fatal("the thread that evicts", &"it panicked");
                }
            })
        });
        let refused = |error: std::io::Error| Error::System {
            what: "a thread",
            errno: error.raw_os_error().unwrap_or(Errno::AGAIN.raw_os_error()),
        };
        let thread = spawned.map_err(refused)?;
        waker.process.store(generation.wrapping_add(1), Relaxed);
        Ok(Worker { thread, generation })
    }

    /// Whether it is a thread of this process, and not of the parent.
    fn is_here(&self) -> bool {
        self.generation == generation()
    }

    /// Ends the thread and waits for it.
    fn stop(self, pager: &Pager) {
        if self.is_here() {
            pager.waker.word.fetch_or(STOPPED, AcqRel);
            wake(&pager.waker.word);
            let _panicked = self.thread.join();
            pager.waker.process.store(0, Relaxed);
        } else {
            // The child has no such thread to wait for.
            std::mem::forget(self.thread);
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
                0 => wait(&self.waker.word, 0),
                seen if seen & STOPPED != 0 => return,
                _ => {
                    while self.run_step(&mut buf) {
                        evicted += 1;
                    }
                    if evicted >= COMPACTED_STEPS {
                        self.compact();
                        evicted = 0;
                    }
                    // Who wants room while there is none looks after itself, and asks again.
                    self.waker.word.fetch_and(!WANTED, AcqRel);
                }
            }
        }
    }

    /// Evicts some blocks; whether to go on.
    fn run_step(&self, buf: &mut [u8]) -> bool {
        let inside = GATE.enter();
        let step = STEP_BYTES.div_ceil(self.blocks.unit);
        let gone = self.evict(&mut self.evictor.lock(), step, buf);
        drop(inside);
        self.waker.step();
        let is_stopped = self.waker.word.load(Acquire) & STOPPED != 0;
        gone > 0 && !is_stopped && self.limit.held() > self.limit.enough()
    }

    /// Moves some objects of the device together, if that frees enough.
    fn compact(&self) {
        let _inside = GATE.enter();
        let used = self.device.mm_stat().mem_used_total;
        if self.device.freeable() as u64 > used / FREEABLE_SHARE {
            self.device.shrink(STEP_BYTES);
            self.weigh();
        }
    }

    /// Sees to it that so many blocks may become resident. The caller owns no block, and has a
    /// seat's buffer.
    pub(crate) fn make_room(&self, units: usize, buf: &mut [u8]) {
        // Where nothing can go, more is tried as more has come.
        if !self.limit.is_wanted(units) || self.limit.is_stuck() {
            return;
        }
        if self.waker.wake() {
            self.wait_for_room(units);
        } else if let Some(mut evictor) = self.evictor.try_lock() {
            self.evict(&mut evictor, units.max(self.batch()), buf);
        }
    }

    /// Waits until the thread has made room, finds none, or does nothing for long.
    fn wait_for_room(&self, units: usize) {
        let began = Instant::now();
        let (mut last_step, mut steps) = (began, self.waker.steps.load(Acquire));
        while self.limit.is_full(units) && !self.limit.is_stuck() {
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
