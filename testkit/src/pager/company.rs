//! A second thread that uses the region of a model concurrently with the model's thread.

use super::Subject;
use super::mirror::SIGNAL;
use fastrand::Rng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zmem::Advice;

pub use Work::*;

/// The work of the second thread. The thread never changes the value of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The thread only waits. The process then has more than one thread.
    Parked,
    /// The thread reads and compares bytes.
    Reading,
    /// The thread writes bytes without changing their values.
    Writing,
    /// The thread evicts and fills blocks.
    Evicting,
    /// The thread signals the first thread, whose handler touches bytes.
    Signalling,
}

/// The number of touches, calls or signals before a pause.
const ROUND: usize = 8;
const PAUSE: Duration = Duration::from_micros(50);

/// The second thread, which ends when this value is dropped.
#[derive(Debug)]
pub struct Company {
    pub work: Work,
    stop: Arc<AtomicBool>,
    /// The lock that the second thread holds while it uses the region.
    turn: Arc<Mutex<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Company {
    /// Starts the thread. `subject` must exist until the returned value is dropped.
    pub fn new(work: Work, seed: u64, subject: &'static Subject) -> Self {
        let (stop, turn) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
        let (its_stop, its_turn) = (Arc::clone(&stop), Arc::clone(&turn));
        // SAFETY: the call has no requirements. The identifier that it returns is valid until this
        // thread ends.
        let first = unsafe { libc::pthread_self() };
        let thread = thread::spawn(move || {
            let mut rng = Rng::with_seed(seed);
            while !its_stop.load(Relaxed) {
                if work == Parked {
                    thread::park();
                    continue;
                }
                let its_turn = locked(&its_turn);
                (0..ROUND).for_each(|_| act(work, &mut rng, subject, first));
                drop(its_turn);
                thread::park_timeout(PAUSE);
            }
        });
        Company { work, stop, turn, thread: Some(thread) }
    }

    /// Prevents the thread from using the region as long as the returned guard exists.
    pub fn pause(&self) -> MutexGuard<'_, ()> {
        locked(&self.turn)
    }
}

fn locked(turn: &Mutex<()>) -> MutexGuard<'_, ()> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

fn act(work: Work, rng: &mut Rng, subject: &Subject, first: libc::pthread_t) {
    let Subject { region, mirror } = subject;
    let at = rng.usize(..mirror.len());
    let range = at..mirror.len().min(at + rng.usize(..64 << 10));
    match work {
        Parked => {}
        Reading => mirror.touch(at),
        Writing => mirror.rewrite(at),
        Evicting => match rng.usize(..4) {
            0 => _ = region.reclaim(range.len()),
            1 => region.advise(range, Advice::Hot).expect("the range is within"),
            2 => region.prefetch(range).expect("the range is within"),
            _ => region.advise(range, Advice::Cold).expect("the range is within"),
        },
        // SAFETY: the first thread exists, because it joins this thread before it ends. Its handler
        // can safely run at any point.
        Signalling => assert_eq!(unsafe { libc::pthread_kill(first, SIGNAL) }, 0),
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        let has_failed = thread.join().is_err();
        assert!(!has_failed || thread::panicking(), "the second thread failed");
    }
}
