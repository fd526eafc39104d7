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

use crate::chunk;
use crate::limit::evictable;
use crate::owned::{for_owned, publish_closed};
use crate::pager::Pager;
use crate::policy::{CLOCK_WINDOW, SHARED_BYTES};
use crate::state::{State, WordValue};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Closes all resident blocks that are not pinned. The caller has closed the gate, so no other
/// thread changes a block.
pub(crate) fn share_all(pager: &Pager) {
    // In a copy of the process, the thread that holds the lock may be missing.
    let Some(clock) = pager.eviction_lock.try_lock() else { return };
    let group = set_group(pager);
    let (mut window, mut groups) = (0, groups_max(pager));
    while window < clock.windows
        && let Some(open) = chunk::next_open_window(pager, window)
    {
        // A chunk may have several clock windows, or a clock window several chunks.
        let Range { start, end } = pager.blocks_of_window(open);
        let end = chunk::blocks_of(pager, start).end.max(end);
        window = end.div_ceil(CLOCK_WINDOW);
        let takes = |_, seen: WordValue| seen.is_evictable();
        for_owned(pager, start..end, State::Resident, takes, |run| {
            let needed = run.len().div_ceil(group);
            if run.len() < group || needed > groups {
                return run.release();
            }
            groups -= needed;
            publish_closed(run, State::Shared);
        });
    }
}

/// Returns the maximum number of groups that may be separate mappings.
fn groups_max(pager: &Pager) -> usize {
    (2 * pager.probation_max).max(1)
}

/// Computes and stores the number of blocks in a group. A touch opens a group. Groups are large
/// enough that each may be a separate mapping, as is necessary if every other group is touched.
fn set_group(pager: &Pager) -> usize {
    let least = (SHARED_BYTES / pager.sizes.block).max(1);
    let most = pager.chunk_bytes / pager.sizes.block;
    let needed = pager.limit.resident().div_ceil(groups_max(pager));
    let group = needed.next_power_of_two().clamp(least, most.max(least));
    pager.group.store(group, Relaxed);
    group
}

/// Returns the blocks that a touch of `block` opens: its group, or its chunk if no other
/// process shares the blocks any more.
pub(crate) fn group_of(pager: &Pager, block: usize) -> Range<usize> {
    let (group, chunk) = (pager.group.load(Relaxed), chunk::blocks_of(pager, block));
    if !evictable::is_sharing(&pager.limit) {
        return chunk;
    }
    let start = chunk.start + (block - chunk.start) / group * group;
    start..chunk.end.min(start + group)
}

/// Opens the shared blocks among `blocks`. From then on only this process uses their pages.
pub(crate) fn unshare(pager: &Pager, blocks: Range<usize>) {
    let takes = |_, _| true;
    for_owned(pager, blocks, State::Shared, takes, |mut run| {
        if run.reopen().is_err() {
            // The kernel may refuse the process more mappings. If all shared blocks before and
            // behind the run are opened too, no mapping is split.
            run.grow_before(0);
            run.grow_behind(pager.blocks());
            pager.expect("memory can't be opened again", run.reopen());
        }
        run.publish(State::Resident, |_, word| word);
    });
}
