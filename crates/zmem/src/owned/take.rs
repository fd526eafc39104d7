//! Takes ownership of blocks, with one compare-and-swap for each block (zm-S1), and collects owned
//! blocks of a clock window that are published one by one.

use super::{OwnedRun, check_published};
use crate::backend::Data;
use crate::pager::Pager;
use crate::policy::CLOCK_WINDOW;
use crate::state::{State, WordValue};
use rustix::io::Errno;
use std::mem::take;
use std::ops::Range;

/// Takes ownership of a block if its word is still `seen`, which is not `Busy`.
pub(crate) fn own_block(pager: &Pager, block: usize, seen: WordValue) -> Option<OwnedRun<'_>> {
    let is_owned = pager.words[block].try_own(seen);
    is_owned.then(|| OwnedRun::new(pager, block..block + 1, seen.state()))
}

/// Takes ownership of blocks from the start of `blocks` until a block is not in the state `from`,
/// `takes` returns false, or the run has `CLOCK_WINDOW` blocks. The returned run may be empty.
pub(crate) fn own_first(
    pager: &Pager,
    blocks: Range<usize>,
    from: State,
    takes: impl Fn(WordValue) -> bool,
) -> OwnedRun<'_> {
    let mut run = OwnedRun::new(pager, blocks.start..blocks.start, from);
    let end = blocks.end.min(blocks.start + CLOCK_WINDOW);
    while run.blocks.end < end && try_take(pager, run.blocks.end, from, &takes) {
        run.blocks.end += 1;
    }
    run
}

/// Takes ownership of a block if it is in the state `from` and `takes` returns true.
pub(super) fn try_take(
    pager: &Pager,
    block: usize,
    from: State,
    takes: impl Fn(WordValue) -> bool,
) -> bool {
    let (word, seen) = (&pager.words[block], pager.words[block].load());
    seen.state() == from && takes(seen) && word.try_own(seen)
}

/// Takes ownership of all blocks in the state `from` for which `takes` returns true, and calls
/// `work` for each run of them.
pub(crate) fn for_owned<'p>(
    pager: &'p Pager,
    blocks: Range<usize>,
    from: State,
    takes: impl Fn(usize, WordValue) -> bool,
    mut work: impl FnMut(OwnedRun<'p>),
) {
    let takes = |block| try_take(pager, block, from, |seen| takes(block, seen));
    for_runs(blocks, usize::MAX, takes, |run| work(OwnedRun::new(pager, run, from)));
}

/// Takes ownership of the blocks that are still `Evicting`, and calls `work` for each run. The
/// caller has set the blocks to `Evicting`.
pub(crate) fn for_evicting<'p>(
    pager: &'p Pager,
    blocks: Range<usize>,
    mut work: impl FnMut(OwnedRun<'p>),
) {
    let ends = |block: usize| pager.words[block].try_end_evicting();
    for_runs(blocks, usize::MAX, ends, |run| work(OwnedRun::new(pager, run, State::Evicting)));
}

/// Takes ownership of `block`, which was just removed from the queue of the compressor thread.
pub(crate) fn own_queued(pager: &Pager, block: usize) -> OwnedRun<'_> {
    OwnedRun::new(pager, block..block + 1, State::Evicted)
}

/// Calls `takes` for each block, and `work` for each run of neighbours for which `takes`
/// returned true. A run has at most `longest` blocks.
pub(crate) fn for_runs(
    blocks: Range<usize>,
    longest: usize,
    takes: impl Fn(usize) -> bool,
    mut work: impl FnMut(Range<usize>),
) {
    let mut start = blocks.start;
    while start < blocks.end {
        let end = blocks.end.min(start.saturating_add(longest));
        let taken = (start..end).take_while(|&block| takes(block)).count();
        if taken > 0 {
            work(start..start + taken);
        }
        // The block that ended the run was not taken. The next run begins after it.
        start += taken + usize::from(start + taken < end);
    }
}

/// Closes owned blocks, and publishes them in the state `to`, `Probation` or `Shared`. Returns the
/// number of closed blocks. If the kernel refuses the run because some blocks are locked, the run's
/// blocks are closed one by one, unless `to` is `Shared`.
pub(crate) fn publish_closed(mut run: OwnedRun<'_>, to: State) -> usize {
    let closed = run.len();
    match run.close() {
        Ok(()) => {
            run.publish(to, |_, word| word);
            closed
        }
        Err(_) if closed > 1 && to != State::Shared => {
            std::iter::from_fn(|| run.split_first()).map(|own| publish_closed(own, to)).sum()
        }
        Err(_) => {
            run.release();
            0
        }
    }
}

/// Owned blocks of one clock window. The blocks were resident before this thread became their
/// owner, and still count as resident.
#[derive(Debug)]
#[must_use = "other threads wait for owned blocks until they are published"]
pub(crate) struct OwnedSet<'p> {
    pager: &'p Pager,
    /// The clock window's first block.
    first: usize,
    /// A bit for each owned block, numbered from `first`.
    bits: u64,
}

impl<'p> OwnedSet<'p> {
    pub(crate) fn new(pager: &'p Pager, first: usize) -> Self {
        OwnedSet { pager, first, bits: 0 }
    }

    /// Adds a run of blocks of the clock window.
    pub(crate) fn add(&mut self, mut run: OwnedRun<'p>) {
        debug_assert!(run.from == State::Resident && run.is_counted);
        take(&mut run.blocks).for_each(|block| self.bits |= 1 << (block - self.first));
    }

    pub(crate) fn has(&self, block: usize) -> bool {
        self.bits >> (block - self.first) & 1 == 1
    }

    /// Removes a block, and returns it if the set contained it.
    pub(crate) fn take(&mut self, block: usize) -> Option<OwnedRun<'p>> {
        let has = self.has(block);
        self.bits &= !(1 << (block - self.first));
        has.then(|| OwnedRun::new(self.pager, block..block + 1, State::Resident))
    }

    /// Makes accessible blocks absent, and frees their pages. Each of `blocks` is owned or absent.
    pub(crate) fn drop_pages(&self, blocks: Range<usize>) -> Result<(), Errno> {
        let Pager { backend, memory, .. } = self.pager;
        self.pager.note_closing(&blocks);
        backend.drop_pages(memory, self.pager.bytes_of(blocks), Data::Open)
    }
}

impl Drop for OwnedSet<'_> {
    fn drop(&mut self) {
        check_published(self.bits == 0);
    }
}
