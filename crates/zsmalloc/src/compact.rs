//! Compaction moves objects together, so that pages become free.
//!
//! Objects of classes that the plan has closed move to open classes. In each open class, objects
//! move from the emptiest zspages to the fullest zspages. After a pool has grown, objects that were
//! stored under an earlier, coarser plan move to finer classes. A thread that holds the class's
//! lock copies the object, and then retargets the object's entry by compare-and-swap. An object
//! whose entry is locked is not moved. So no reader waits for a move, and no object moves during a
//! read (I3).

use crate::class::{Class, ClassState};
use crate::class_guard::ClassGuard;
use crate::fork::{RepairedPool, repaired_or_err};
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

/// The right to compact, which one thread holds at a time. On drop, adds the processor time that
/// the thread has spent to the statistics.
pub(crate) struct CompactionScope<'p> {
    pool: RepairedPool<'p>,
    begun: Duration,
    _alone: JobGuard<'p>,
}

impl<'p> CompactionScope<'p> {
    /// Acquires the right to compact. Returns `None` if another thread holds it.
    pub(crate) fn begin(pool: RepairedPool<'p>) -> Option<Self> {
        let alone = JobGuard::begin(&pool.inner().compaction.is_active)?;
        Some(CompactionScope { pool, begun: thread_time(), _alone: alone })
    }
}

impl Drop for CompactionScope<'_> {
    fn drop(&mut self) {
        let took = thread_time().saturating_sub(self.begun).as_nanos() as u64;
        self.pool.compaction.cpu_nanoseconds.fetch_add(took, Relaxed);
    }
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The results of a compaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) moved: usize,
    /// The number of pages whose last object was moved away.
    freed: usize,
    /// The number of pages that had no object before objects moved to them.
    spent: usize,
}

impl Progress {
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

/// The conditions under which a pass over a class continues.
pub(crate) struct Aim<'a> {
    /// Returns whether packing an open class is worthwhile.
    pub(crate) worth: &'a dyn Fn(&Class, &ClassState) -> bool,
    /// Called with the progress in the class after each step of moves, with no lock held. The pass
    /// continues if the function returns true.
    pub(crate) go_on: &'a mut dyn FnMut(&Progress) -> bool,
}

/// Moves objects together until `wanted` pages are freed.
pub(crate) fn shrink_until(inner: &PoolInner, wanted: usize) -> Progress {
    let alone = repaired_or_err(inner).ok().and_then(CompactionScope::begin);
    let Some(alone) = alone else { return Progress::default() };
    inner.replan(Purpose::Compaction);
    // A move to a finer class can commit pages before it frees any. So no object moves to a finer
    // class if the caller wants a limited number of pages.
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

/// Empties a closed class, or packs an open class. If `refine` is true, objects for which a finer
/// class is open are first moved to that class.
pub(crate) fn compact_class(
    alone: &CompactionScope<'_>,
    class: &Class,
    refine: bool,
    aim: &mut Aim<'_>,
) -> Progress {
    let pool = alone.pool;
    let is_open = pool.is_open(class);
    let done =
        if refine || !is_open { reclassify_class(pool, class, aim) } else { Progress::default() };
    if is_open { done.and(pack(pool, class, aim)) } else { done }
}

/// Packs a class while packing can free pages and `aim` finds packing worthwhile. Unlocks the class
/// after each step of moves, so that waiting threads can lock it. Skips zspages from which no
/// object can be moved.
fn pack(pool: RepairedPool<'_>, class: &Class, aim: &mut Aim<'_>) -> Progress {
    let mut done = Progress::default();
    let mut skipped = Vec::new();
    while skipped.len() < SKIPPED_MAX && (aim.go_on)(&done) {
        let mut locked = pool.lock(class);
        if !(aim.worth)(class, &locked.state) {
            break;
        }
        let Some(ends) = pick_source_and_target(&locked, &skipped) else { break };
        let moved = migrate(pool, &mut locked, ends, policy::step(class.size()));
        done = done.and(end_step(&pool, locked, ends.0, &moved));
        if moved.objects == 0 {
            skipped.push(ends.0);
        }
    }
    done
}

/// Moves the objects of a class that the plan assigns to another class. Pinned objects are not
/// moved.
fn reclassify_class(pool: RepairedPool<'_>, class: &Class, aim: &mut Aim<'_>) -> Progress {
    let mut done = Progress::default();
    if pool.lock(class).state.inuse == 0 {
        return done;
    }
    // This walk over the zspages of all classes takes no lock, so `reclassify_some` checks each
    // zspage again under the class's lock.
    let mut backoff = Backoff::default();
    for id in pool.memory.space.live().filter(|&id| std::ptr::eq(pool.class_of_zspage(id), class)) {
        let mut more = true;
        while more && (aim.go_on)(&done) {
            let step;
            (step, more) = reclassify_some(pool, class, id, &mut backoff);
            done = done.and(step);
        }
    }
    done
}

/// Moves some objects of a zspage to the classes that the plan assigns. Returns the progress, and
/// whether the caller should call this function for the zspage again.
fn reclassify_some(
    pool: RepairedPool<'_>,
    class: &Class,
    id: ExtentId,
    backoff: &mut Backoff,
) -> (Progress, bool) {
    let mut locked = pool.lock(class);
    if !locked.contains(id) {
        return (Progress::default(), false);
    }
    let moved = reclassify(pool, &mut locked, id, policy::step(class.size()));
    let done = end_step(&pool, locked, id, &moved);
    let more = match moved.obstacle {
        Some(Obstacle::NoRoom(position)) => add_zspage(&pool, &pool.classes[position]).is_ok(),
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

/// Counts the moves of a step, and releases or retains the pages that the moves emptied. Near a
/// limit the pages are released immediately, because the next move can need pages.
fn end_step(inner: &PoolInner, locked: ClassGuard<'_>, id: ExtentId, moved: &Moved) -> Progress {
    if inner.is_near_limit(0) {
        purge::release(inner, locked, id);
    } else {
        purge::retain(inner, locked, id);
    }
    let counters = &inner.compaction;
    counters.moved_objects.fetch_add(moved.objects as u64, Relaxed);
    counters.moved_bytes.fetch_add(moved.bytes, Relaxed);
    counters.freed_pages.fetch_add(moved.emptied as u64, Relaxed);
    counters.spent_pages.fetch_add(moved.entered as u64, Relaxed);
    Progress { moved: moved.objects, freed: moved.emptied, spent: moved.entered }
}

/// Compacts the pool's metadata: entries, and headers of zspages. Calls `go_on` repeatedly, and
/// stops when `go_on` returns false.
pub(crate) fn compact_meta(alone: &CompactionScope<'_>, go_on: &mut dyn FnMut() -> bool) {
    let pool = alone.pool;
    pool.entries().rebalance(go_on);
    let memory = &pool.memory;
    for id in memory.space.live().take_while(|_| go_on()) {
        pool.lock(pool.class_of_zspage(id)).relocate_header(id);
    }
    memory.shrink();
}
