//! Compaction by itself: a thread that is started when a class passes a bound, and ends when idle.
//!
//! ```text
//!   free --class holds too many free pages--> ask: thread started or woken
//!   thread: class by class, a few objects under the lock at a time, asleep as long as it worked
//!           until every class is below the lower bound; a second without being asked, and it ends
//! ```
//!
//! Locks: `inner` is taken with no other lock held, and over a fork before all others.

use crate::Core;
use crate::class::{Class, ClassState};
use crate::compact::{Compacting, Done};
use crate::core::Owner;
use crate::stat::ClassStat;
use crate::sync::Ordering::Relaxed;
use page::fork::Mutex;
use rustix_futex_sync::Condvar;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(1);
/// The thread sleeps this many times as long as it worked: it takes at most half a processor.
const REST: u32 = 1;

/// The shortest and the longest rest after a pass that could move nothing.
const FRUITLESS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Compaction begins in a class when moving could free more than this share of its pages, and more than
/// one page ...
const BEGIN_SHARE: u64 = 16;
/// ... and ends when it could free no more than this share.
const END_SHARE: u64 = 64;

/// Whether compaction should begin in a class.
pub(crate) fn is_worth_asking(class: &Class, state: &ClassState) -> bool {
    let gain = ClassStat::new(class, state).gain();
    gain > 1 && gain > state.committed / BEGIN_SHARE
}

/// Whether it should go on there.
pub(crate) fn is_worth_going_on(class: &Class, state: &ClassState) -> bool {
    ClassStat::new(class, state).gain() > state.committed / END_SHARE
}

#[derive(Debug, Default)]
struct Inner {
    thread: Option<JoinHandle<()>>,
    stopping: bool,
}

/// The thread, while there is one, and what it is told.
#[derive(Default)]
pub(crate) struct Background {
    inner: Mutex<Inner>,
    told: Condvar,
    asked: AtomicBool,
    /// Starts or wakes the thread; unset where compaction is on demand only.
    ask: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Background {
    /// Has the thread compact soon. Called with no lock held.
    pub(crate) fn ask(&self) {
        if let Some(ask) = self.ask.get().filter(|_| !self.asked.swap(true, Relaxed)) {
            ask();
        }
    }

    /// Waits until there is something to do; false when the thread is to end.
    fn wait(&self) -> bool {
        let mut inner = self.inner.lock();
        while !inner.stopping && !self.asked.load(Relaxed) {
            let (guard, result) = self.told.wait_timeout(inner, IDLE);
            inner = guard;
            if result.timed_out() && !self.asked.load(Relaxed) {
                inner.thread = None;
                return false;
            }
        }
        self.asked.store(false, Relaxed);
        !inner.stopping
    }

    /// Waits for `time`, or until the thread is to end.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut inner = self.inner.lock();
        while !inner.stopping {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return };
            inner = self.told.wait_timeout(inner, left).0;
        }
    }

    fn is_stopping(&self) -> bool {
        self.inner.lock().stopping
    }

    /// Ends the thread and waits for it; none is started again.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut inner = self.inner.lock();
            inner.stopping = true;
            inner.thread.take()
        };
        self.told.notify_all();
        // The thread itself may drop the last reference to the pool.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // It does not panic; if it did, the message is out already.
            let _ = thread.join();
        }
    }

    pub(crate) fn hold(&self) {
        self.inner.hold();
    }

    pub(crate) fn let_go(&self) {
        self.inner.let_go();
    }

    /// Forgets the thread, in a child that has not got it.
    pub(crate) fn forget_thread(&self) {
        self.asked.store(false, Relaxed);
        std::mem::forget(self.inner.lock().thread.take());
    }
}

impl<O: Owner + Send + 'static> Core<O> {
    /// Has the pool compacted in the background from now on, whenever it is worth it.
    pub fn compact_in_background(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        let ask = Box::new(move || {
            if let Some(core) = weak.upgrade() {
                core.start_or_wake(&weak);
            }
        });
        // Asked for a second time, there is nothing to change.
        let _ = self.parts().background.ask.set(ask);
    }

    fn start_or_wake(&self, weak: &Weak<Self>) {
        let background = &self.parts().background;
        let mut inner = background.inner.lock();
        if inner.thread.is_none() && !inner.stopping {
            let (weak, shared) = (weak.clone(), background.clone());
            let builder = thread::Builder::new().name("uzram-compact".into());
            // Without a thread the pool stays as it is, until the next who asks.
            inner.thread = builder.spawn(move || Self::run(&weak, &shared)).ok();
            if inner.thread.is_none() {
                background.asked.store(false, Relaxed);
            }
        }
        drop(inner);
        background.told.notify_all();
    }

    fn run(weak: &Weak<Self>, background: &Background) {
        let mut rest = Duration::ZERO;
        while background.wait() {
            let Some(core) = weak.upgrade() else { return };
            let moved = core.pass(background);
            drop(core);
            // What could not be moved now (pinned, or no room to move to) is not tried again at once.
            rest =
                if moved > 0 { Duration::ZERO } else { (rest * 2).clamp(FRUITLESS.0, FRUITLESS.1) };
            background.rest(rest);
        }
    }

    /// Compacts every class that is worth it, a little at a time; objects moved.
    fn pass(&self, background: &Background) -> usize {
        self.whole();
        let parts = self.parts();
        let Some(_alone) = Compacting::begin(parts) else { return 0 };
        let mut moved = 0;
        for class in parts.classes.iter().rev() {
            let mut begun = Instant::now();
            let go_on = |done: &Done| {
                if done.moved > 0 {
                    thread::sleep(begun.elapsed() * REST);
                }
                begun = Instant::now();
                !background.is_stopping()
            };
            moved += self.compact_class(class, is_worth_going_on, go_on).moved;
        }
        moved
    }
}

impl<O: Owner> Core<O> {
    /// Ends the background thread, if there is one, and waits for it.
    pub fn stop_background(&self) {
        self.parts().background.stop();
    }
}
