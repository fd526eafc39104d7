//! The thread that evicts ahead of need, and who makes room without it.

use crate::Error;
use crate::fatal::fatal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::policy::PIECE;
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

/// A fault waits so long for room that another thread makes, and goes on then (zm-H4).
const ROOM_TIME: Duration = Duration::from_millis(20);
const ROOM_TICK: Duration = Duration::from_millis(1);
/// Blocks that go before a fork that waits is let in.
const STEP: usize = 4 * PIECE;

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
        loop {
            match self.waker.word.load(Acquire) {
                0 => wait(&self.waker.word, 0),
                seen if seen & STOPPED != 0 => return,
                _ => {
                    while self.run_step() {}
                    // Who wants room while there is none looks after itself, and asks again.
                    self.waker.word.fetch_and(!WANTED, AcqRel);
                }
            }
        }
    }

    /// Evicts some blocks; whether to go on.
    fn run_step(&self) -> bool {
        let inside = GATE.enter();
        let mut seat = self.seats.take();
        let gone = self.evict(&mut self.evictor.lock(), STEP, &mut seat);
        drop((seat, inside));
        self.waker.step();
        let is_stopped = self.waker.word.load(Acquire) & STOPPED != 0;
        gone > 0 && !is_stopped && self.limit.held() > self.limit.enough()
    }

    /// Sees to it that so many blocks may become resident. The caller owns no block, and has a
    /// seat's buffer.
    pub(crate) fn make_room(&self, units: usize, buf: &mut [u8]) {
        if !self.limit.is_wanted(units) {
            return;
        }
        let has_thread = self.waker.wake();
        let is_short = || match has_thread {
            true => self.limit.is_full(units),
            false => self.limit.is_wanted(units),
        };
        let began = Instant::now();
        while is_short() && !self.limit.is_stuck() {
            match self.evictor.try_lock() {
                Some(mut evictor) => {
                    self.evict(&mut evictor, units.max(PIECE), buf);
                    drop(evictor);
                    self.waker.step();
                }
                None if began.elapsed() > ROOM_TIME => return,
                None => {
                    let steps = self.waker.steps.load(Acquire);
                    wait_for(&self.waker.steps, steps, ROOM_TICK);
                }
            }
        }
    }
}
