//! The room that an arena's process makes for other processes with the same limit, and the figures
//! that these processes need.

use super::Arena;
use crate::evict::Goal;
use crate::limit::Usage;
use crate::limit::evictable;
use crate::policy::CLOCK_WINDOW;
use crate::process::shares_memory;
use crate::state::State;
use crate::{chunk, room, stats};

impl Arena {
    /// While the processes that share the limit are short of room, evicts until this process holds
    /// at most its share of the limit. If `waits`, evicts even if they are not short of room,
    /// because a waiting process does not need the memory. After an attempt that evicted hardly
    /// anything, this function does nothing for a while, because otherwise each call would try
    /// every block of a program whose data do not compress.
    pub fn yield_room(&self, waits: bool) {
        let limit = &self.calls.pager.limit;
        let is_more = || (waits || limit.is_wanted(0)) && evictable::is_above_share(limit);
        let step = self.calls.pager.step_blocks();
        while limit.may_try() && is_more() {
            room::paced(&self.calls.pager, step, || self.calls.evict(Goal::AtLeast(step)));
        }
    }

    /// Evicts as [`yield_room`](Self::yield_room) does, after many blocks were unpinned. The
    /// unpinned blocks may be evictable now, and the kernel may have written to opened blocks since
    /// the memory was last counted.
    pub fn yield_unpinned(&self) {
        self.weigh_process();
        self.retry_evictions();
        self.yield_room(false);
    }

    /// Permits evictions at once, although the last evictions evicted nothing.
    pub fn retry_evictions(&self) {
        self.calls.pager.limit.set_no_progress(false);
    }

    /// Waits until no other thread evicts. The calling thread holds no lock of the arena.
    pub fn await_evictions(&self) {
        let _ended = self.calls.inside(|pager| drop(pager.eviction_lock.lock()));
    }

    /// Records how much memory this process uses outside of the arena.
    pub fn weigh_process(&self) {
        evictable::weigh_process(&self.calls.pager.limit);
    }

    /// Returns whether this process uses the memory of another process, and therefore that
    /// process's arena, as a child of `vfork` does.
    pub fn is_lent(&self) -> bool {
        shares_memory()
    }

    /// Returns the memory that the arena holds now.
    pub fn usage(&self) -> Usage {
        evictable::usage(&self.calls.pager.limit)
    }

    /// If faults have taken half of the time for 10 s, returns the bytes of blocks that a larger
    /// limit would keep resident.
    pub fn lacks(&self) -> Option<u64> {
        stats::lacks(&self.calls.pager)
    }

    /// Returns the bytes of compressed data that are stored uncompressed, because compression does
    /// not make them smaller.
    pub fn incompressible_bytes(&self) -> u64 {
        self.calls.pager.device.mm_stat().huge_pages * page::page_size() as u64
    }

    /// Returns the bytes of resident blocks that are pinned.
    pub fn pinned_bytes(&self) -> u64 {
        let pager = &self.calls.pager;
        let (mut window, mut pinned) = (0, 0);
        while let Some(open) = chunk::next_open_window(pager, window) {
            let blocks = open * CLOCK_WINDOW..pager.blocks().min((open + 1) * CLOCK_WINDOW);
            let is_pinned = |block: &usize| {
                let seen = pager.words[*block].load();
                seen.state() == State::Resident && seen.pins() > 0
            };
            pinned += blocks.filter(is_pinned).count() * self.block();
            window = open + 1;
            if window * CLOCK_WINDOW >= pager.blocks() {
                break;
            }
        }
        pinned as u64
    }
}
