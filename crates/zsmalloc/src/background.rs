//! Compaction by itself: a thread that is started when a class passes a bound, and ends when idle.
//!
//! ```text
//!   free --class holds too many free pages, or pool much smaller--> ask: thread started or woken
//!   thread: class by class, a few objects under the lock at a time, now and then asleep as long as it worked
//!           until every class is below the lower bound
//!           not asked for a moment: once more, to where nothing can be gained, and what manages the pool too
//!           not asked for a second: it ends
//! ```
//!
//! Locks: `inner` is taken with no lock held but an owner's word or a stream, and over a fork before all others.

use crate::Core;
use crate::class::{Class, ClassState};
use crate::compact::{Aim, Compacting};
use crate::core::Owner;
use crate::plan::Purpose;
use crate::sync::Ordering::Relaxed;
use page::fork::Mutex;
use rustix_futex_sync::Condvar;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long no one has asked when the thread finishes the job ...
const QUIET: Duration = Duration::from_millis(50);
/// ... and when it ends.
const IDLE: Duration = Duration::from_secs(1);
/// When the thread has worked so long it sleeps ...
const WORK: Duration = Duration::from_millis(2);
/// ... this many times as long: it takes at most half a processor. To be woken costs others time too, so that is
/// not done more often.
const REST: u32 = 1;
/// Steps by which it is nicer than who started it: where all processors are taken, threads that store and read
/// are not interrupted for it, and it has still a tenth of one.
const NICENESS: i32 = 10;

/// The shortest and the longest rest after a pass that could move nothing.
const FRUITLESS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(320));

/// Compaction begins in a class when moving could free more than this share of its pages ...
const BEGIN_SHARE: u32 = 32;
/// ... and more than this many ...
const BEGIN_PAGES: u32 = 2;
/// ... and ends when it could free no more than this share, or one page.
const END_SHARE: u32 = 128;

/// Whether compaction should begin in a class.
pub(crate) fn is_worth_asking(class: &Class, state: &ClassState) -> bool {
    let gain = class.gain(state);
    gain > BEGIN_PAGES && gain > state.committed / BEGIN_SHARE
}

/// Whether it should go on there.
fn is_worth_going_on(class: &Class, state: &ClassState) -> bool {
    let gain = class.gain(state);
    gain > 1 && gain > state.committed / END_SHARE
}

/// What the thread is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Compact where it is worth it.
    Pass,
    /// Compact wherever anything can be gained.
    Finish,
    End,
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

    /// Waits until there is something to do. `finished` tells whether nothing was, since it was last finished.
    fn wait(&self, finished: bool) -> Next {
        let mut inner = self.inner.lock();
        while !inner.stopping && !self.asked.load(Relaxed) {
            let (guard, result) =
                self.told.wait_timeout(inner, if finished { IDLE } else { QUIET });
            inner = guard;
            if result.timed_out() && !self.asked.load(Relaxed) && !inner.stopping {
                if finished {
                    inner.thread = None;
                    return Next::End;
                }
                return Next::Finish;
            }
        }
        self.asked.store(false, Relaxed);
        if inner.stopping { Next::End } else { Next::Pass }
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
        // Of this thread alone, as Linux counts it. If it is refused, the thread is as nice as the others.
        let _ = rustix::process::nice(NICENESS);
        let mut rest = Duration::ZERO;
        let mut next = background.wait(false);
        while next != Next::End {
            let Some(core) = weak.upgrade() else { return };
            let moved = core.pass(background, next);
            drop(core);
            // What could not be moved now (pinned, or no room to move to) is not tried again at once.
            rest = match next {
                Next::Pass if moved == 0 => (rest * 2).clamp(FRUITLESS.0, FRUITLESS.1),
                _ => Duration::ZERO,
            };
            background.rest(rest);
            next = background.wait(next == Next::Finish);
        }
    }

    /// Compacts every class that is worth it, a little at a time; objects moved.
    fn pass(&self, background: &Background, next: Next) -> usize {
        self.whole();
        let parts = self.parts();
        let Some(alone) = Compacting::begin(parts) else { return 0 };
        if next == Next::Finish || parts.is_plan_too_large() {
            parts.plan_anew(Purpose::Compaction);
        }
        let worth: &dyn Fn(&Class, &ClassState) -> bool = match next {
            Next::Finish => &|_, _| true,
            _ => &is_worth_going_on,
        };
        let grown = parts.has_grown().filter(|_| next == Next::Finish);
        let mut moved = 0;
        let mut begun = Instant::now();
        let mut go_on = || {
            let worked = begun.elapsed();
            if worked >= WORK {
                thread::sleep(worked * REST);
                begun = Instant::now();
            }
            !background.is_stopping()
        };
        for class in parts.classes.iter().rev() {
            let aim = &mut Aim { worth, go_on: &mut |_| go_on() };
            moved += self.compact_class(&alone, class, grown.is_some(), aim).moved;
        }
        if next == Next::Finish {
            self.tidy_all(&alone, &mut go_on);
            parts.trim(usize::MAX);
            grown.inspect(|grown| parts.settled(grown));
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
