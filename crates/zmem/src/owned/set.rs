//! Owned blocks of one clock window, which are published one by one.

use super::{OwnedRun, check_published};
use crate::backend::Data;
use crate::pager::Pager;
use crate::state::State;
use rustix::io::Errno;
use std::mem::take;
use std::ops::Range;

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
