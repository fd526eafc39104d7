//! Compaction by itself: a thread that is started when a class passes a bound, and ends when idle.
//!
//! ```text
//!   free --class holds too many free pages, or pool much smaller--> ask: thread started or woken
//!   thread: class by class, a few objects under the lock at a time, now and then asleep as long as it worked
//!           until every class is below the lower bound
//!           not asked for a moment: once more, to where nothing can be gained, and what manages the pool too
//!           not asked for a second: it ends
//! ```

use crate::Core;
use crate::class::{Class, ClassState};
use crate::compact::{Aim, Compacting};
use crate::core::Owner;
use crate::plan::Purpose;
use crate::worker::{IDLE, Told, Worker};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long no one has asked when the thread finishes the job.
const QUIET: Duration = Duration::from_millis(50);
/// When the thread has worked so long it sleeps ...
const WORK: Duration = Duration::from_millis(2);
/// ... this many times as long: it takes at most half a processor. To be woken costs others time too, so that is
/// not done more often.
const REST: u32 = 1;

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
}

impl<O: Owner + Send + 'static> Core<O> {
    /// Has the pool work in the background from now on, whenever it is worth it: two threads, one of which compacts,
    /// while the other fetches pages ahead of need and gives back what too much is ready.
    pub fn compact_in_background(self: &Arc<Self>) {
        self.enable(|core| &core.parts().compactor, Self::run);
        self.enable(|core| &core.parts().fetcher, Self::tend);
    }

    /// Has `run` done by a thread whenever that is asked for.
    fn enable(self: &Arc<Self>, worker: fn(&Self) -> &Arc<Worker>, run: fn(&Weak<Self>, &Worker)) {
        let weak = Arc::downgrade(self);
        worker(self).enable(move || {
            if let Some(core) = weak.upgrade() {
                let (weak, shared) = (weak.clone(), worker(&core).clone());
                worker(&core).start_or_wake(move || run(&weak, &shared));
            }
        });
    }

    fn run(weak: &Weak<Self>, worker: &Worker) {
        let mut rest = Duration::ZERO;
        let mut finished = false;
        loop {
            let next = match worker.wait(if finished { IDLE } else { QUIET }, finished) {
                Told::Asked => Next::Pass,
                Told::Quiet => Next::Finish,
                Told::End => return,
            };
            let Some(core) = weak.upgrade() else { return };
            let moved = core.pass(worker, next);
            drop(core);
            finished = next == Next::Finish;
            // What could not be moved now (pinned, or no room to move to) is not tried again at once.
            rest = match next {
                Next::Pass if moved == 0 => (rest * 2).clamp(FRUITLESS.0, FRUITLESS.1),
                _ => Duration::ZERO,
            };
            worker.rest(rest);
        }
    }

    /// Compacts every class that is worth it, a little at a time; objects moved.
    fn pass(&self, worker: &Worker, next: Next) -> usize {
        let parts = self.parts();
        let alone = self.whole().ok().and_then(|()| Compacting::begin(parts));
        let Some(alone) = alone else { return 0 };
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
            !worker.is_stopping()
        };
        for class in parts.classes.iter().rev() {
            let aim = &mut Aim { worth, go_on: &mut |_| go_on() };
            moved += self.compact_class(&alone, class, grown.is_some(), aim).moved;
        }
        if next == Next::Finish {
            self.tidy_all(&alone, &mut go_on);
            self.trim();
            grown.inspect(|grown| parts.settled(grown));
        }
        moved
    }
}

impl<O: Owner> Core<O> {
    /// Ends the background threads, if there are any, and waits for them.
    pub fn stop_background(&self) {
        self.parts().compactor.stop();
        self.parts().fetcher.stop();
    }
}
