//! Blocks that are closed at a fork, because copies of all of them would use too much memory.
//! Parent and child share the pages, which count once until one of the two accesses them (zm-L16).
//!
//! ```text
//!   fork:    Resident -> closed -> Shared, in the parent and so in the child
//!   touch:   room is made -> its group is opened -> Resident
//!
//!   mappings:  | Shared    | touched | Shared | touched | Shared  |      as many groups as
//!              '---------- groups of the same size -------------'        may be mappings
//! ```

use crate::owned::for_owned;
use crate::pager::Pager;
use crate::policy::{CLOCK_WINDOW, SHARED_BYTES};
use crate::state::{State, WordValue};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl Pager {
    /// Closes all resident blocks that are not pinned. The caller has closed the gate, so no other
    /// thread changes a block.
    pub(crate) fn share_all(&self) {
        // In a copy of the process, the thread that holds the lock may be missing.
        let Some(clock) = self.eviction_lock.try_lock() else { return };
        let group = self.set_group();
        let (mut window, mut groups) = (0, self.groups_max());
        while window < clock.windows
            && let Some(open) = self.next_open_window(window)
        {
            // A chunk may have several clock windows, or a clock window several chunks.
            let Range { start, end } = self.blocks_of_window(open);
            let end = self.blocks_of_chunk(start).end.max(end);
            window = end.div_ceil(CLOCK_WINDOW);
            let takes = |_, seen: WordValue| seen.is_evictable();
            for_owned(self, start..end, State::Resident, takes, |run| {
                let needed = run.len().div_ceil(group);
                if run.len() < group || needed > groups {
                    return run.release();
                }
                groups -= needed;
                self.close(run, State::Shared);
            });
        }
    }

    /// Returns the maximum number of groups that may be separate mappings.
    fn groups_max(&self) -> usize {
        (2 * self.probation_max).max(1)
    }

    /// Computes and stores the number of blocks in a group. A touch opens a group. Groups are large
    /// enough that each may be a separate mapping, as is necessary if every other group is touched.
    fn set_group(&self) -> usize {
        let least = (SHARED_BYTES / self.sizes.block).max(1);
        let most = self.chunk_bytes / self.sizes.block;
        let needed = self.limit.resident().div_ceil(self.groups_max());
        let group = needed.next_power_of_two().clamp(least, most.max(least));
        self.group.store(group, Relaxed);
        group
    }

    /// Returns the blocks that a touch of `block` opens: its group, or its chunk if no other
    /// process shares the blocks any more.
    pub(crate) fn group_of(&self, block: usize) -> Range<usize> {
        let (group, chunk) = (self.group.load(Relaxed), self.blocks_of_chunk(block));
        if !self.limit.is_sharing() {
            return chunk;
        }
        let start = chunk.start + (block - chunk.start) / group * group;
        start..chunk.end.min(start + group)
    }

    /// Opens the shared blocks among `blocks`. From then on only this process uses their pages.
    pub(crate) fn unshare(&self, blocks: Range<usize>) {
        let takes = |_, _| true;
        for_owned(self, blocks, State::Shared, takes, |mut run| {
            if run.reopen().is_err() {
                // The kernel may refuse the process more mappings. If all shared blocks before and
                // behind the run are opened too, no mapping is split.
                run.grow_before(0);
                run.grow_behind(self.blocks());
                self.expect("memory can't be opened again", run.reopen());
            }
            run.publish(State::Resident, |_, word| word);
        });
    }
}
