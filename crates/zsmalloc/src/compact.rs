//! Compaction: moves objects together, so that pages become free.
//!
//! Classes that the plan has closed lose their objects to those that are open; in each open one,
//! objects of the emptiest zspages move to the fullest. After a pool has grown, objects that were
//! stored under a coarser plan move to the finer classes that are open now. A move copies first and
//! then retargets the entry by compare-and-swap, all under the class's lock: an entry that is
//! locked is left alone, so no reader waits for a move and none moves under a reader (I3).

use crate::class::{Class, ClassState};
use crate::class_guard::ClassGuard;
use crate::fork::{Here, ensure_here};
use crate::inner::PoolInner;
use crate::plan::Purpose;
use crate::policy::{self, SKIPPED_MAX};
use crate::relocate::{Moved, Obstacle, migrate, reclassify};
use crate::search::pick_source_and_target;
use crate::sync::Ordering::Relaxed;
use crate::sync::{Backoff, JobGuard};
use crate::{Error, purge};
use page::ExtentId;
use std::time::Duration;

/// That one thread compacts, which is this one, and since when.
pub(crate) struct CompactionScope<'p> {
    here: Here<'p>,
    begun: Duration,
    _alone: JobGuard<'p>,
}

impl<'p> CompactionScope<'p> {
    /// Begins, unless another thread compacts.
    pub(crate) fn begin(here: Here<'p>) -> Option<Self> {
        let alone = JobGuard::begin(&here.inner().compaction.is_active)?;
        Some(CompactionScope { here, begun: thread_time(), _alone: alone })
    }
}

impl Drop for CompactionScope<'_> {
    fn drop(&mut self) {
        let took = thread_time().saturating_sub(self.begun).as_nanos() as u64;
        self.here.compaction.cpu_nanoseconds.fetch_add(took, Relaxed);
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Objects moved.
    pub(crate) moved: usize,
    /// Pages on which nothing lives any more.
    freed: usize,
    /// Pages on which nothing lived before.
    spent: usize,
}

impl Progress {
    /// Returns the pages gained.
    pub(crate) fn gained(&self) -> usize {
        self.freed.saturating_sub(self.spent)
    }

    fn and(self, other: Progress) -> Progress {
        Progress {
            moved: self.moved + other.moved,
            freed: self.freed + other.freed,
            spent: self.spent + other.spent,
        }
    }
}

/// How far a pass is to go.
pub(crate) struct Aim<'a> {
    /// Whether packing an open class is worth it.
    pub(crate) worth: &'a dyn Fn(&Class, &ClassState) -> bool,
    /// Asked after each step, with no lock held: whether to go on, given what was done in the
    /// class.
    pub(crate) go_on: &'a mut dyn FnMut(&Progress) -> bool,
}

/// Moves objects together until so many pages were gained.
pub(crate) fn shrink_until(inner: &PoolInner, wanted: usize) -> Progress {
    let alone = ensure_here(inner).ok().and_then(CompactionScope::begin);
    let Some(alone) = alone else { return Progress::default() };
    inner.replan(Purpose::Compaction);
    // A caller that wants a number of pages gets them by packing alone, since refining takes pages
    // first.
    let grown = inner.has_grown().filter(|_| wanted == usize::MAX);
    let mut total = Progress::default();
    for class in inner.classes.iter().rev() {
        let mut go_on = |done: &Progress| total.and(*done).gained() < wanted;
        let aim = &mut Aim { worth: &|_, _| true, go_on: &mut go_on };
        let all = compact_class(&alone, class, grown.is_some(), aim);
        total = total.and(all);
    }
    if total.gained() < wanted {
        compact_meta(&alone, &mut || true);
        grown.inspect(|grown| inner.refined(grown));
    }
    total
}

/// Empties the class if the plan has closed it, else packs it. Before that, if it is to be
/// refined, those of its objects leave it that have a finer class now.
pub(crate) fn compact_class(
    alone: &CompactionScope<'_>,
    class: &Class,
    refine: bool,
    aim: &mut Aim<'_>,
) -> Progress {
    let here = alone.here;
    let is_open = here.is_open(class);
    let done =
        if refine || !is_open { reclassify_class(here, class, aim) } else { Progress::default() };
    if is_open { done.and(pack(here, class, aim)) } else { done }
}

/// Moves objects of one class together as long as that is worth it, and can free pages. The lock is
/// dropped after each step, for threads that wait. A zspage of which nothing can be moved is passed
/// over.
fn pack(here: Here<'_>, class: &Class, aim: &mut Aim<'_>) -> Progress {
    let mut done = Progress::default();
    let mut skipped = Vec::new();
    while skipped.len() < SKIPPED_MAX && (aim.go_on)(&done) {
        let mut locked = here.lock(class);
        if !(aim.worth)(class, &locked.state) {
            break;
        }
        let Some(ends) = pick_source_and_target(&locked, &skipped) else { break };
        let moved = migrate(here, &mut locked, ends, policy::step(class.size()));
        done = done.and(end_step(&here, locked, ends.0, &moved));
        if moved.objects == 0 {
            skipped.push(ends.0);
        }
    }
    done
}

/// Moves those objects of a class to others that the plan has others for; what is pinned stays.
fn reclassify_class(here: Here<'_>, class: &Class, aim: &mut Aim<'_>) -> Progress {
    let mut done = Progress::default();
    if here.lock(class).state.inuse == 0 {
        return done;
    }
    // All there are, of whichever class, are walked without the lock; those found are looked at
    // again under it.
    let mut backoff = Backoff::default();
    for id in here.memory.space.live().filter(|&id| std::ptr::eq(here.class_of_zspage(id), class)) {
        let mut more = true;
        while more && (aim.go_on)(&done) {
            let step;
            (step, more) = reclassify_some(here, class, id, &mut backoff);
            done = done.and(step);
        }
    }
    done
}

/// The same with some objects of a zspage; and whether there may be more that can be moved.
fn reclassify_some(
    here: Here<'_>,
    class: &Class,
    id: ExtentId,
    backoff: &mut Backoff,
) -> (Progress, bool) {
    let mut locked = here.lock(class);
    if !locked.contains(id) {
        return (Progress::default(), false);
    }
    let moved = reclassify(here, &mut locked, id, policy::step(class.size()));
    let done = end_step(&here, locked, id, &moved);
    let more = match moved.obstacle {
        Some(Obstacle::NoRoom(position)) => add_zspage(&here, &here.classes[position]).is_ok(),
        Some(Obstacle::Busy) => {
            backoff.wait();
            true
        }
        None => moved.objects > 0,
    };
    (done, more)
}

fn add_zspage(inner: &PoolInner, class: &Class) -> Result<(), Error> {
    let zspage = inner.memory.create(class)?;
    inner.lock(class).insert(zspage);
    Ok(())
}

/// Counts a step, and sees to the pages of the zspage that objects were moved from: near a
/// limit they are needed at once, for what is moved next.
fn end_step(
    inner: &PoolInner,
    locked: ClassGuard<'_>,
    source: ExtentId,
    moved: &Moved,
) -> Progress {
    if inner.is_near_limit(0) {
        purge::release(inner, locked, source);
    } else {
        purge::retain(inner, locked, source);
    }
    let counters = &inner.compaction;
    counters.moved_objects.fetch_add(moved.objects as u64, Relaxed);
    counters.moved_bytes.fetch_add(moved.bytes, Relaxed);
    counters.freed_pages.fetch_add(moved.emptied as u64, Relaxed);
    counters.spent_pages.fetch_add(moved.entered as u64, Relaxed);
    Progress { moved: moved.objects, freed: moved.emptied, spent: moved.entered }
}

/// Moves what manages the pool together: entries, and headers of zspages. `go_on` is asked now
/// and then.
pub(crate) fn compact_meta(alone: &CompactionScope<'_>, go_on: &mut dyn FnMut() -> bool) {
    let here = alone.here;
    here.entries().rebalance(go_on);
    let memory = &here.memory;
    for id in memory.space.live().take_while(|_| go_on()) {
        here.lock(here.class_of_zspage(id)).relocate_header(id);
    }
    memory.shrink();
}
