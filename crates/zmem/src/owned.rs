//! Blocks that one thread owns. The word of an owned block is `Busy`. Only the owner changes the
//! block's protection, contents and state, and the counts of states (zm-S1).
//!
//! ```text
//!   own_block, own_first, for_owned, ... -> OwnedRun -> fill, reopen, close, drop_pages ... -.
//!                                             '-> OwnedSet: blocks of a clock window ---------+
//!                         publish | release | queue: once, or the process is aborted <------'
//! ```

mod take;

use crate::backend::Data;
use crate::error::fatal;
use crate::limit::evictable;
use crate::memory::pages::{self, populate};
use crate::pager::Pager;
use crate::state::{State, WordValue};
use crate::threads::WorldStopped;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
pub(crate) use take::{
    OwnedSet, for_evicting, for_owned, for_runs, own_block, own_first, own_queued, publish_closed,
};

/// Neighbouring blocks that this thread owns. Before this thread owned them, all of these blocks
/// were in the state `from`.
#[derive(Debug)]
#[must_use = "other threads wait for owned blocks until they are published"]
pub(crate) struct OwnedRun<'p> {
    pager: &'p Pager,
    blocks: Range<usize>,
    from: State,
    /// Whether the blocks count as resident now.
    is_counted: bool,
}

impl<'p> OwnedRun<'p> {
    fn new(pager: &'p Pager, blocks: Range<usize>, from: State) -> Self {
        OwnedRun { pager, blocks, from, is_counted: from.is_counted() }
    }

    pub(crate) fn blocks(&self) -> Range<usize> {
        self.blocks.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the state of the blocks before this thread became their owner.
    pub(crate) fn from(&self) -> State {
        self.from
    }

    fn bytes(&self) -> Range<usize> {
        self.pager.bytes_of(self.blocks())
    }

    /// Takes ownership of the blocks between the run and `end`, in ascending order, until a block
    /// is not in the state `from`.
    pub(crate) fn grow_behind(&mut self, end: usize) {
        while self.blocks.end < end && self.take(self.blocks.end) {
            self.blocks.end += 1;
        }
    }

    /// Takes ownership of the blocks from `start` to the run, in descending order, until a block is
    /// not in the state `from`.
    pub(crate) fn grow_before(&mut self, start: usize) {
        while self.blocks.start > start && self.take(self.blocks.start - 1) {
            self.blocks.start -= 1;
        }
    }

    fn take(&self, block: usize) -> bool {
        take::try_take(self.pager, block, self.from, |_| true)
    }

    /// Moves the first block to a run of its own. Returns `None` if no block is left.
    pub(crate) fn split_first(&mut self) -> Option<Self> {
        let block = self.blocks.next()?;
        let (pager, from, is_counted) = (self.pager, self.from, self.is_counted);
        Some(OwnedRun { pager, blocks: block..block + 1, from, is_counted })
    }

    /// Records that the caller has counted the blocks as resident.
    pub(crate) fn set_counted(&mut self) {
        debug_assert!(!self.is_counted);
        self.is_counted = true;
    }

    /// Sets whether the blocks count as resident.
    pub(crate) fn count(&mut self, is_counted: bool) {
        let limit = &self.pager.limit;
        match (self.is_counted, is_counted) {
            (false, true) => limit.add(self.len()),
            (true, false) => limit.sub(self.len()),
            _ => {}
        }
        self.is_counted = is_counted;
    }

    /// Makes the absent blocks of this run readable and writable, filled with zeros.
    pub(crate) fn fill_zeros(&self) {
        let Pager { backend, memory, .. } = self.pager;
        self.pager.expect("memory can't be opened", backend.fill_zeros(memory, self.bytes()));
    }

    /// Makes the absent blocks of this run readable and writable, with the contents `data`. Other
    /// threads fault until a block's data are in place.
    pub(crate) fn fill(&self, data: &[u8]) {
        let Pager { backend, memory, .. } = self.pager;
        self.pager.expect("a block can't be filled", backend.fill(memory, self.bytes(), data));
    }

    /// Makes the absent blocks of this run readable and writable, and then calls `fill` to write
    /// their contents. No other thread runs before the contents are complete (zm-A1).
    pub(crate) fn fill_in_place(&self, stopped: &WorldStopped, fill: impl FnOnce(&mut [u8])) {
        self.fill_zeros();
        populate(&self.pager.memory, self.bytes());
        pages::with_bytes(&self.pager.memory, self.bytes(), stopped, fill);
    }

    /// Calls `read` with the contents of the resident blocks of this run.
    pub(crate) fn with_bytes(&self, stopped: &WorldStopped, read: impl FnOnce(&mut [u8])) {
        pages::with_bytes(&self.pager.memory, self.bytes(), stopped, read);
    }

    /// Makes the closed blocks of this run readable and writable again.
    pub(crate) fn reopen(&self) -> Result<(), Errno> {
        self.pager.backend.reopen(&self.pager.memory, self.bytes())
    }

    /// Makes accesses to the blocks fault, and keeps the blocks' data in memory.
    pub(crate) fn close(&self) -> Result<(), Errno> {
        self.pager.note_closing(&self.blocks);
        self.pager.backend.close(&self.pager.memory, self.bytes())
    }

    /// Makes the closed blocks of this run readable, but not writable, at their addresses.
    pub(crate) fn show(&self) -> Result<(), Errno> {
        self.pager.backend.show(&self.pager.memory, self.bytes())
    }

    /// Makes the blocks absent, and frees their pages. `data` states where the blocks' data are
    /// before the call.
    pub(crate) fn drop_pages(&self, data: Data) -> Result<(), Errno> {
        self.pager.note_closing(&self.blocks);
        self.pager.backend.drop_pages(&self.pager.memory, self.bytes(), data)
    }

    /// Unlocks blocks that the program locked, so that the blocks' pages can be dropped.
    pub(crate) fn unlock(&self) -> Result<(), Errno> {
        self.pager.memory.unlock(self.bytes())
    }

    /// After `drop_pages` failed, makes the blocks readable and writable, and restores their
    /// contents `data`.
    pub(crate) fn put_back(&self, data: &[u8]) {
        let put_back = self.pager.backend.put_back(&self.pager.memory, self.bytes(), data);
        self.pager.expect("memory can't be put back", put_back);
    }

    /// After `drop_pages` failed, makes the blocks readable and writable, and zeroes them.
    pub(crate) fn put_zeros(&self) {
        for block in self.blocks() {
            let bytes = self.pager.bytes_of(block..block + 1);
            let put_back = self.pager.backend.put_zeros(&self.pager.memory, bytes);
            self.pager.expect("memory can't be put back", put_back);
        }
    }

    /// Zeroes resident blocks.
    pub(crate) fn clear(&self) {
        pages::clear(&self.pager.memory, self.bytes());
    }

    /// Replaces the program's own mappings of the blocks by memory on which every access faults.
    pub(crate) fn unmap(&self) -> Result<(), Errno> {
        let Pager { backend, memory, .. } = self.pager;
        memory.map_anew(self.bytes())?;
        backend.open_chunk(memory, self.bytes())
    }

    /// Excludes the blocks from huge pages.
    pub(crate) fn keep_pages_small(&self) {
        self.pager.memory.keep_pages_small(self.bytes());
    }

    /// Publishes the blocks with their previous state `from`.
    pub(crate) fn release(self) {
        let from = self.from;
        self.publish(from, |_, word| word);
    }

    /// Publishes the blocks with the state `to`, and updates the counts of states. `change` changes
    /// the other bits of a block's word, and can be called several times for a block.
    pub(crate) fn publish(mut self, to: State, change: impl Fn(usize, WordValue) -> WordValue) {
        self.count(to.is_counted());
        let Pager { words, limit, probation, .. } = self.pager;
        match self.from {
            State::Probation => _ = probation.fetch_sub(self.len(), Relaxed),
            State::Shared => evictable::leave_shared(limit, self.len()),
            _ => {}
        }
        match to {
            State::Probation => _ = probation.fetch_add(self.len(), Relaxed),
            State::Shared => evictable::add_shared(limit, self.len()),
            _ => {}
        }
        std::mem::take(&mut self.blocks)
            .for_each(|block| words[block].publish(to, |word| change(block, word)));
    }

    /// Queues the blocks for the compressor thread, after their pages were dropped. `data` are the
    /// blocks' contents. The queue has space for the blocks. The caller holds the eviction lock.
    pub(crate) fn queue(mut self, data: &[u8]) {
        debug_assert!(data.len() == self.bytes().len());
        debug_assert!(!matches!(self.from, State::Probation | State::Shared));
        self.count(false);
        let Some(copies) = self.pager.compressor.made() else { unreachable!("there was room") };
        let blocks = std::mem::take(&mut self.blocks);
        for (block, data) in blocks.zip(data.chunks(self.pager.sizes.block)) {
            copies.queue.offer(block, |slot| copies.data[slot].lock().copy_from_slice(data));
        }
    }
}

impl Drop for OwnedRun<'_> {
    fn drop(&mut self) {
        check_published(self.is_empty());
    }
}

/// Aborts the process if owned blocks were not published, because other threads would wait for
/// these blocks forever. During a panic the process is not aborted here, so that the panic's
/// message is shown.
fn check_published(is_published: bool) {
    if !is_published && !std::thread::panicking() {
        fatal("a block is owned for ever", &"its owner has not published it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::memory::Managed;
    use crate::pager::Contents;
    use crate::range_calls;
    use testkit::child::Child;

    fn pager() -> Pager {
        let memory = Managed::map(2 << 20, 2 << 20).unwrap();
        let pager = Pager::new(memory, Contents::InUse, &Options::default()).unwrap();
        crate::chunk::begin(&pager, Contents::InUse);
        pager
    }

    #[test]
    fn a_process_that_drops_owned_blocks_is_aborted() {
        let pager = pager();
        let own = || own_block(&pager, 3, pager.words[3].load()).unwrap();
        own().release();
        let forgets: [&dyn Fn(); 3] = [
            &|| drop(own()),
            &|| {
                let mut run = own_first(&pager, 3..6, State::Resident, |_| true);
                run.split_first().unwrap().release();
            },
            &|| {
                let mut set = OwnedSet::new(&pager, 0);
                set.add(own());
            },
        ];
        for forgets in forgets {
            let status = Child::fork(forgets).status();
            assert_eq!(libc::WTERMSIG(status), libc::SIGABRT, "{status}");
        }
        range_calls::check(&pager);
    }

    #[test]
    fn counts_follow_the_states_of_owned_blocks() {
        let pager = pager();
        let resident = pager.limit.resident();
        let mut run = own_first(&pager, 3..9, State::Resident, |_| true);
        assert_eq!(run.blocks(), 3..9);
        let block = run.split_first().unwrap();
        run.close().unwrap();
        run.publish(State::Probation, |_, word| word);
        block.release();
        assert_eq!((pager.limit.resident(), pager.probation.load(Relaxed)), (resident, 5));
        // The block between two runs is pinned.
        assert!(pager.words[12].try_pin(pager.words[12].load()));
        let mut runs = Vec::new();
        let takes = |_, seen: WordValue| seen.is_evictable();
        for_owned(&pager, 2..16, State::Resident, takes, |run| runs.push(run));
        let blocks: Vec<_> = runs.iter().map(OwnedRun::blocks).collect();
        assert_eq!(blocks, [2..4, 9..12, 13..16]);
        for run in runs {
            run.drop_pages(Data::Open).unwrap();
            run.publish(State::Untouched, |_, word| word);
        }
        assert_eq!(pager.limit.resident(), resident - 8);
        let marked = own_first(&pager, 4..9, State::Probation, |_| true);
        marked.reopen().unwrap();
        marked.publish(State::Resident, |_, word| word);
        assert_eq!(pager.probation.load(Relaxed), 0);
        pager.words[12].unpin();
        range_calls::check(&pager);
    }
}
