//! The compactor thread. The thread starts when compaction could free many pages of a class, and
//! ends when there is no work.
//!
//! ```text
//!   free --class holds too many free pages, or pool much smaller--> thread started or woken
//!   thread: compacts class by class, a few objects under a lock, and sleeps as long as it worked,
//!           until every class is below the lower bound
//!           no request for a moment: packs every class that can free a page, and the metadata
//!           no request for a second: the thread exits
//! ```

use crate::class::{Class, ClassState};
use crate::compact::{Aim, CompactionScope, compact_class, compact_meta};
use crate::fork::repaired_or_err;
use crate::inner::PoolInner;
use crate::plan::Purpose;
use crate::policy::{self, IDLE, QUIET, REST, WORK};
use crate::purge::purge_all;
use crate::worker::{Wake, Worker};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Compact the classes for which compaction is worthwhile.
    Pass,
    /// Compact every class in which compaction can free a page.
    Finish,
}

/// Enables `worker`, whose thread calls `run` whenever work is requested.
pub(crate) fn enable(
    inner: &Arc<PoolInner>,
    worker: fn(&PoolInner) -> &Arc<Worker>,
    run: fn(&Weak<PoolInner>, &Worker),
) {
    let weak = Arc::downgrade(inner);
    worker(inner).enable(move || {
        if let Some(inner) = weak.upgrade() {
            let (weak, shared) = (weak.clone(), worker(&inner).clone());
            worker(&inner).start_or_wake(move || run(&weak, &shared));
        }
    });
}

/// The main function of the compactor thread.
pub(crate) fn run_compactor(weak: &Weak<PoolInner>, worker: &Worker) {
    let mut rest = Duration::ZERO;
    let mut finished = false;
    loop {
        let next = match worker.wait(if finished { IDLE } else { QUIET }, finished) {
            Wake::Notified => Next::Pass,
            Wake::Timeout => Next::Finish,
            Wake::Stop => return,
        };
        let Some(inner) = weak.upgrade() else { return };
        let moved = pass(&inner, worker, next);
        drop(inner);
        finished = next == Next::Finish;
        // If a pass could move no object, the thread waits longer before the next pass.
        rest = match next {
            Next::Pass if moved == 0 => policy::rest_after(rest),
            _ => Duration::ZERO,
        };
        worker.rest(rest);
    }
}

/// Compacts every class for which compaction is worthwhile, in small steps. Returns the number of
/// objects moved.
fn pass(inner: &PoolInner, worker: &Worker, next: Next) -> usize {
    let alone = repaired_or_err(inner).ok().and_then(CompactionScope::begin);
    let Some(alone) = alone else { return 0 };
    if next == Next::Finish || inner.plan.is_too_large(inner.used()) {
        inner.replan(Purpose::Compaction);
    }
    let worth: &dyn Fn(&Class, &ClassState) -> bool = match next {
        Next::Finish => &|_, _| true,
        Next::Pass => &|class, state| policy::should_go_on(class.gain(state), state.committed),
    };
    let grown = inner.has_grown().filter(|_| next == Next::Finish);
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
    for class in inner.classes.iter().rev() {
        let aim = &mut Aim { worth, go_on: &mut |_| go_on() };
        moved += compact_class(&alone, class, grown.is_some(), aim).moved;
    }
    if next == Next::Finish {
        compact_meta(&alone, &mut go_on);
        purge_all(inner, &inner.retained.wait_for_purge_job());
        grown.inspect(|grown| inner.refined(grown));
    }
    moved
}
