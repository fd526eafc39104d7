//! Owned blocks of one piece, which are published one by one.

use super::{OwnedRun, check_published};
use crate::backend::Data;
use crate::pager::Pager;
use crate::state::State;
use rustix::io::Errno;
use std::mem::take;
use std::ops::Range;

/// Owned blocks of one piece. The blocks were resident before this thread became their owner, and
/// still count as resident.
#[derive(Debug)]
#[must_use = "other threads wait for owned blocks until they are published"]
pub(crate) struct OwnedSet<'p> {
    pager: &'p Pager,
    /// The piece's first block.
    first: usize,
    /// A bit for each owned block, numbered from `first`.
    blocks: u64,
}

impl<'p> OwnedSet<'p> {
    pub(crate) fn new(pager: &'p Pager, first: usize) -> Self {
        OwnedSet { pager, first, blocks: 0 }
    }

    /// Adds a run of blocks of the piece.
    pub(crate) fn add(&mut self, mut run: OwnedRun<'p>) {
        debug_assert!(run.from == State::Resident && run.is_counted);
        take(&mut run.units).for_each(|unit| self.blocks |= 1 << (unit - self.first));
    }

    pub(crate) fn has(&self, unit: usize) -> bool {
        self.blocks >> (unit - self.first) & 1 == 1
    }

    /// Removes a block, and returns it if the set contained it.
    pub(crate) fn take(&mut self, unit: usize) -> Option<OwnedRun<'p>> {
        let has = self.has(unit);
        self.blocks &= !(1 << (unit - self.first));
        has.then(|| OwnedRun::new(self.pager, unit..unit + 1, State::Resident))
    }

    /// Makes accessible blocks absent, and frees their pages. Each of `units` is owned or absent.
    pub(crate) fn drop_pages(&self, units: Range<usize>) -> Result<(), Errno> {
        let Pager { backend, memory, .. } = self.pager;
        self.pager.note_closing(&units);
        backend.drop_pages(memory, self.pager.bytes_of(units), Data::Open)
    }
}

impl Drop for OwnedSet<'_> {
    fn drop(&mut self) {
        check_published(self.blocks == 0);
    }
}
