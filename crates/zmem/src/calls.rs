//! Calls on regions and arenas from code outside of signal handlers. A long call consists of steps.
//! Between the steps, forks proceed and signals are delivered.

use crate::backend::ForkResult;
use crate::contexts::Purpose;
use crate::evict::{self, Goal};
use crate::gate::inside;
use crate::pager::Pager;
use crate::policy::{CALL_FREEABLE_SHARE, HEAT_KEPT_MAX};
use crate::recent::Spares;
use crate::room::{self, Waits};
use crate::state::HEAT_MAX;
use crate::stats::Stats;
use crate::worker::Workers;
use crate::{Advice, Error, range_calls, registry, stats};
use std::ops::Range;
use std::sync::Arc;

/// A pager and its pager thread. The first call after a limit was set starts the pager thread.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) pager: Arc<Pager>,
    pub(crate) worker: Workers,
}

impl Calls {
    /// Ends the pager thread and the handling of faults. If the memory belongs to the program, all
    /// blocks are filled first.
    pub(crate) fn end(&self) {
        let pager = &self.pager;
        self.worker.stop(pager);
        if !pager.memory.is_ours && pager.backend.fork_result() == ForkResult::Copy {
            let _none_is_too_low = pager.limit.set(None);
            // A faulting thread may still be evicting, and `bring` would not fill blocks that are
            // evicted later. Therefore, `has_ended` stops all evictions first.
            let _no_one_evicts = self.inside(|pager| pager.eviction_lock.lock().has_ended = true);
            let _someone_is_here = self.bring(0..pager.blocks());
            let _system_forgets = pager.backend.end(&pager.memory);
        }
        registry::remove(pager);
    }

    /// # Errors
    /// [`Error::Forked`] if this process has no memory of the region.
    fn check_here(&self) -> Result<(), Error> {
        let is_here = self.pager.backend.fork_result() != ForkResult::Nothing;
        if is_here { Ok(()) } else { Err(Error::Forked) }
    }

    /// Runs one step of a call inside the gate, with all signals blocked. So the step is allowed to
    /// take locks that fault handlers also take.
    ///
    /// # Errors
    /// [`Error::Forked`]
    pub(crate) fn inside<T>(&self, work: impl FnOnce(&Pager) -> T) -> Result<T, Error> {
        self.check_here()?;
        Ok(inside(|| {
            self.worker.ensure(&self.pager);
            work(&self.pager)
        }))
    }

    /// Returns the region's statistics. Does not start the pager thread, because a child that only
    /// reads statistics does not need it.
    pub(crate) fn stats(&self) -> Stats {
        inside(|| stats::stats(&self.pager))
    }

    /// Runs one step of a call with the buffer of a context.
    ///
    /// # Errors
    /// [`Error::Forked`]
    pub(crate) fn with_buffer<T>(
        &self,
        work: impl FnOnce(&Pager, &mut [u8]) -> T,
    ) -> Result<T, Error> {
        self.inside(|pager| work(pager, pager.contexts.take(Purpose::Call).buffer()))
    }

    /// Divides `blocks` into parts of the size of a step, and calls `work` with each part until a
    /// call fails.
    pub(crate) fn in_steps(
        &self,
        blocks: Range<usize>,
        work: impl FnMut(Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check_here()?;
        let step = self.pager.step_blocks();
        let starts = blocks.clone().step_by(step);
        starts.map(|start| start..blocks.end.min(start + step)).try_for_each(work)
    }

    pub(crate) fn evict(&self, goal: Goal) -> usize {
        let gone = self.with_buffer(|pager, buf| {
            evict::evict(pager, &mut pager.eviction_lock.lock(), goal, Spares::Nothing, buf)
        });
        gone.unwrap_or(0)
    }

    /// Evicts `bytes` bytes, rounded up to whole blocks. Evicts fewer bytes if no more blocks can
    /// be evicted. Returns the number of evicted bytes.
    pub(crate) fn reclaim(&self, bytes: usize) -> usize {
        let size = self.pager.sizes.block;
        let wanted = bytes.div_ceil(size).min(self.pager.blocks());
        let (mut gone, mut failures) = (0, 0);
        // After the device has refused a block, the clock skips the block for more rounds than one
        // step takes. So even after a step that evicted no block, the next step can evict blocks.
        while gone < wanted && failures <= HEAT_MAX / HEAT_KEPT_MAX {
            let step = self.pager.step_blocks().min(wanted - gone);
            let more = self.evict(Goal::Exactly(step));
            gone += more;
            failures += u32::from(more == 0);
        }
        self.compact();
        gone * size
    }

    ///
    /// # Errors
    /// [`Error::Forked`]
    pub(crate) fn advise(&self, blocks: Range<usize>, advice: Advice) -> Result<(), Error> {
        self.in_steps(blocks, |part| {
            self.with_buffer(|pager, buf| match advice {
                Advice::Cold => evict::evict_range(pager, part, buf),
                Advice::Hot => range_calls::heat(pager, part, buf),
            })
        })?;
        if advice == Advice::Cold {
            self.compact();
        }
        Ok(())
    }

    /// After a call that evicted blocks, moves the device's objects closer together if this frees
    /// enough pages.
    fn compact(&self) {
        if self.check_here().is_ok() {
            let compact = || room::compact(&self.pager, Waits::ForOthers, CALL_FREEABLE_SHARE);
            while compact() == Some(true) {}
            room::compact_whole(&self.pager);
        }
    }

    ///
    /// # Errors
    /// [`Error::Forked`]
    pub(crate) fn bring(&self, blocks: Range<usize>) -> Result<(), Error> {
        self.in_steps(blocks, |part| {
            self.with_buffer(|pager, buf| range_calls::prefetch(pager, part, buf))
        })
    }

    /// If too little room is left below the limit, wakes the pager thread, or evicts if there is no
    /// pager thread. Called after the limit was lowered or more blocks became evictable.
    pub(crate) fn seek_room(&self) {
        if self.inside(|_| ()).is_err() {
            return;
        }
        let Pager { limit, waker, .. } = &*self.pager;
        limit.set_no_progress(false);
        if limit.is_wanted(0) && !waker.wake() {
            let step = Goal::AtLeast(self.pager.step_blocks());
            while limit.is_above_enough() && self.evict(step) > 0 {}
        }
    }

    /// Makes blocks resident and pins them, step by step. If a step fails, unpins the blocks of the
    /// earlier steps.
    ///
    /// # Errors
    /// [`Error::Locked`] if a block has too many pins; [`Error::Forked`].
    pub(crate) fn pin(&self, blocks: Range<usize>) -> Result<(), Error> {
        let mut pinned = blocks.start..blocks.start;
        let done = self.in_steps(blocks, |part| {
            self.with_buffer(|pager, buf| range_calls::pin(pager, part.clone(), buf))??;
            pinned.end = part.end;
            Ok(())
        });
        done.inspect_err(|_| range_calls::unpin(&self.pager, pinned))
    }
}

/// A locked range of a region. The range's blocks stay resident until this value is dropped.
#[derive(Debug)]
#[must_use = "the range is kept only as long as this lives"]
pub struct Locked<'r> {
    pub(crate) calls: &'r Calls,
    pub(crate) blocks: Range<usize>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // The limit may require that the unpinned blocks be evicted.
        range_calls::unpin(&self.calls.pager, self.blocks.clone());
        self.calls.seek_room();
    }
}
