//! The addresses and the statistics of an arena, and the evictions that its caller requests.

use crate::background::StartThread;
use crate::calls::Calls;
use crate::evict::Goal;
use crate::limit::Usage;
use crate::limit::evictable;
use crate::process::shares_memory;
use crate::stats::Stats;
use crate::{chunk, compressor_thread, range_calls, room, stats};
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;

/// The functions that return an arena's addresses and statistics, or evict its blocks.
#[derive(Debug)]
pub struct Holding {
    pub(super) calls: Calls,
}

impl Holding {
    /// Returns the addresses of the first window, with which the arena was created.
    pub fn addresses(&self) -> Range<usize> {
        self.calls.pager.memory.addresses()
    }

    /// Returns the size of a block in bytes.
    pub fn block(&self) -> usize {
        self.calls.pager.sizes.block
    }

    /// Returns the addresses of each window, in the order in which the windows were added.
    pub fn windows(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.calls.pager.memory.windows()
    }

    /// Returns whether managed memory at an address is executable.
    pub fn is_executable(&self, address: usize) -> bool {
        self.calls.pager.memory.is_executable(address)
    }

    /// Evicts the coldest blocks, `bytes` bytes in all, rounded up to whole blocks. Evicts fewer
    /// bytes if no more blocks can be evicted. Returns the number of evicted bytes.
    pub fn reclaim(&self, bytes: usize) -> usize {
        self.calls.reclaim(bytes)
    }

    /// Lets a compressor thread store evicted blocks, so that the evicting thread does not wait for
    /// compression. `starter` starts the compressor thread when there is a block to store. The
    /// compressor thread ends after some time without work.
    pub fn defer_stores(&self, starter: &'static dyn StartThread) {
        compressor_thread::set_starter(&self.calls.pager, starter);
    }

    /// Ends the compressor thread, and waits until it has exited. A later eviction starts the
    /// thread again. The caller holds no lock of the arena, and is not handling a fault.
    pub fn rest(&self) {
        compressor_thread::rest(&self.calls.pager);
    }

    /// Ends the compressor thread permanently.
    pub fn end_thread(&self) {
        self.calls.pager.compressor.is_over.store(true, SeqCst);
        self.rest();
    }

    /// Returns the arena's statistics.
    pub fn stats(&self) -> Stats {
        self.calls.stats()
    }

    /// Asserts that each counter of blocks equals the number of blocks in the state that it counts.
    /// No other thread is allowed to use the arena during the call.
    pub fn check(&self) {
        let _no_one_here = self.calls.inside(range_calls::check);
    }

    /// Evicts until this process holds at most its share of the limit, or until all processes hold
    /// at most the limit minus its reserve. If `waits` is true, this process waits and does not
    /// need its memory, so the eviction continues until this process holds at most its share. After
    /// an unsuccessful eviction, the next calls do nothing for a while. Otherwise each call would
    /// try to evict all blocks of a program whose data do not compress.
    pub fn yield_room(&self, waits: bool) {
        let limit = &self.calls.pager.limit;
        let is_more = || (waits || limit.is_wanted(0)) && evictable::is_above_share(limit);
        while is_more() && self.try_step(usize::MAX) {}
    }

    /// Evicts blocks until `bytes` further bytes fit below the limit minus its reserve, so that the
    /// caller can use them outside of the arena. Evicts at most about `bytes` bytes.
    pub fn make_room(&self, bytes: usize) {
        let blocks = bytes.div_ceil(self.calls.pager.sizes.block);
        let step = self.calls.pager.step_blocks();
        for start in (0..blocks).step_by(step) {
            let is_wanted = self.calls.pager.limit.is_wanted(blocks);
            if !is_wanted || !self.try_step(blocks - start) {
                return;
            }
        }
    }

    /// Performs one eviction step of at most `most` blocks, except during the pause after an
    /// unsuccessful eviction. A process that shares the memory of another process evicts nothing
    /// here. Such a process may have stopped a thread of the other process, as LeakSanitizer does,
    /// and the stopped thread may hold a lock that an eviction needs.
    fn try_step(&self, most: usize) -> bool {
        let pager = &self.calls.pager;
        let step = pager.step_blocks().min(most).min(room::blocks_above_floor(pager));
        let may_try = pager.limit.may_try() && !self.is_lent();
        if may_try {
            room::paced(pager, step, || self.calls.evict(Goal::AtLeast(step)));
        }
        may_try
    }

    /// Evicts as [`yield_room`](Self::yield_room) does, after many blocks were unpinned. First
    /// measures the memory of the process, because the kernel may have written to blocks that were
    /// unwritten before. Ends the pause after an unsuccessful eviction, because the unpinned blocks
    /// may be evictable.
    pub fn yield_unpinned(&self) {
        self.weigh_process();
        self.retry_evictions();
        self.yield_room(false);
    }

    /// Ends the pause that follows an unsuccessful eviction.
    pub fn retry_evictions(&self) {
        self.calls.pager.limit.set_no_progress(false);
    }

    /// Waits until no other thread evicts. The caller holds no lock of the arena.
    pub fn await_evictions(&self) {
        let _ended = self.calls.inside(|pager| drop(pager.eviction_lock.lock()));
    }

    /// Measures and records the size of all anonymous memory of this process.
    pub fn weigh_process(&self) {
        evictable::weigh_process(&self.calls.pager.limit);
    }

    /// Returns whether this process uses the memory and the arena of another process, as a child of
    /// `vfork` does.
    pub fn is_lent(&self) -> bool {
        shares_memory()
    }

    /// Returns the limit and the sizes of the memory that the arena holds now.
    pub fn usage(&self) -> Usage {
        evictable::usage(&self.calls.pager.limit)
    }

    /// If faults took most of the time during the last 10 s, returns the number of bytes by which
    /// the limit is too small for the working set.
    pub fn lacks(&self) -> Option<u64> {
        stats::lacks(&self.calls.pager)
    }

    /// Returns the number of bytes that the device stores uncompressed.
    pub fn incompressible_bytes(&self) -> u64 {
        self.calls.pager.device.mm_stat().huge_pages * page::page_size() as u64
    }

    /// Returns the number of bytes in pinned resident blocks.
    pub fn pinned_bytes(&self) -> u64 {
        let pager = &self.calls.pager;
        let is_pinned = |block: &usize| pager.words[*block].load().is_kept();
        let blocks = chunk::open_windows(pager, 0).flat_map(|nth| pager.blocks_of_window(nth));
        (blocks.filter(is_pinned).count() * pager.sizes.block) as u64
    }
}
