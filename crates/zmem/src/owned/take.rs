//! Takes ownership of blocks, by one compare-and-swap for each block (zm-S1). This module also
//! collects owned blocks of a clock window in a set, from which they are published one by one.

use super::{OwnedRun, check_published};
use crate::backend::Data;
use crate::pager::Pager;
use crate::policy::CLOCK_WINDOW;
use crate::state::{State, WordValue};
use rustix::io::Errno;
use std::mem::take;
use std::ops::Range;

/// Takes ownership of a block if its word is still `seen`. The state of `seen` is not `Busy`.
pub(crate) fn own_block(pager: &Pager, block: usize, seen: WordValue) -> Option<OwnedRun<'_>> {
    let is_owned = pager.words[block].try_own(seen);
    is_owned.then(|| OwnedRun::new(pager, block..block + 1, seen.state()))
}

/// Takes ownership of the blocks at the start of `blocks`, one by one. The run ends before the
/// first block that is not in the state `from` or for which `takes` returns false. The run can be
/// empty. A run has at most `CLOCK_WINDOW` blocks.
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

/// Takes ownership of a block if it is in the state `from` and `takes` returns true. Returns
/// whether it succeeded.
pub(super) fn try_take(
    pager: &Pager,
    block: usize,
    from: State,
    takes: impl Fn(WordValue) -> bool,
) -> bool {
    let (word, seen) = (&pager.words[block], pager.words[block].load());
    seen.state() == from && takes(seen) && word.try_own(seen)
}

/// Takes ownership of all blocks in the state `from` for which `takes` returns true. Calls `work`
/// with each run of these blocks.
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

/// Takes ownership of the blocks that are still in the state `Evicting`, which the caller has set.
/// Calls `work` with each run of these blocks.
pub(crate) fn for_evicting<'p>(
    pager: &'p Pager,
    blocks: Range<usize>,
    mut work: impl FnMut(OwnedRun<'p>),
) {
    let ends = |block: usize| pager.words[block].try_end_evicting();
    for_runs(blocks, usize::MAX, ends, |run| work(OwnedRun::new(pager, run, State::Evicting)));
}

/// Returns the owned block `block`, which this thread has just taken out of the compressor thread's
/// queue.
pub(crate) fn own_queued(pager: &Pager, block: usize) -> OwnedRun<'_> {
    OwnedRun::new(pager, block..block + 1, State::Evicted)
}

/// Calls `takes` for each block. Calls `work` with each run of neighbouring blocks for which
/// `takes` returned true. A run has at most `longest` blocks.
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
        // The next run begins after the block for which `takes` returned false.
        start += taken + usize::from(start + taken < end);
    }
}

/// Closes a run of blocks, and publishes the blocks with the state `to`, which is `Probation` or
/// `Shared`. Returns the number of closed blocks. The kernel may refuse to close the run, for
/// example because some blocks are locked. A refused run is closed block by block if `to` is
/// `Probation`, and stays open if `to` is `Shared`.
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

/// Owned blocks of one clock window. The blocks were resident before, and still count as resident.
#[derive(Debug)]
#[must_use = "other threads wait for owned blocks until they are published"]
pub(crate) struct OwnedSet<'p> {
    pager: &'p Pager,
    /// The first block of the clock window.
    first: usize,
    /// Bit n is set if this set contains block `first + n`.
    bits: u64,
}

impl<'p> OwnedSet<'p> {
    pub(crate) fn new(pager: &'p Pager, first: usize) -> Self {
        OwnedSet { pager, first, bits: 0 }
    }

    pub(crate) fn add(&mut self, mut run: OwnedRun<'p>) {
        debug_assert!(run.from == State::Resident && run.is_counted);
        take(&mut run.blocks).for_each(|block| self.bits |= 1 << (block - self.first));
    }

    pub(crate) fn has(&self, block: usize) -> bool {
        self.bits >> (block - self.first) & 1 == 1
    }

    /// Takes a block out of the set. Returns `None` if the set does not contain the block.
    pub(crate) fn take(&mut self, block: usize) -> Option<OwnedRun<'p>> {
        let has = self.has(block);
        self.bits &= !(1 << (block - self.first));
        has.then(|| OwnedRun::new(self.pager, block..block + 1, State::Resident))
    }

    /// Makes `blocks` absent, and frees their pages. Each of `blocks` is in the set or already
    /// absent.
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
