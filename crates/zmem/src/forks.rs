//! Forks of a process that has regions. A child does not inherit the marks of a userfaultfd.
//! Therefore, if the child will have a copy of a region with a userfaultfd, all blocks of the
//! region are filled before the fork. In a child, the state of each region is adapted to the child.
//! All functions run while the gate is closed, so no other thread changes a block.
//!
//! Resident blocks are closed at a fork if separate copies in parent and child would use too much
//! memory. Parent and child then share the blocks' pages. A shared page counts once towards the
//! limit until the parent or the child accesses the page's block (zm-L16).
//!
//! ```text
//!   fork:    Resident -> closed -> Shared, in the parent and so in the child
//!   touch:   room is made -> its group is opened -> Resident
//!
//!   mappings:  | Shared    | touched | Shared | touched | Shared  |      as many groups as
//!              '---------- groups of the same size -------------'        mappings allow
//! ```

use crate::backend::ForkResult;
use crate::background::NONE;
use crate::contexts::Purpose;
use crate::gate::GATE;
use crate::limit::evictable;
use crate::owned::{for_owned, publish_closed};
use crate::pager::Pager;
use crate::policy::{CLOCK_WINDOW, SHARED_BYTES};
use crate::process::{self, CopyDetectedBy};
use crate::recent::Wanted;
use crate::state::{State, WordValue};
use crate::{chunk, descriptor, fault, registry, signals, threads};
use page::fork::{AtFork, Turn};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

/// Registers the functions that each fork calls. The functions must be registered before the device
/// of the first region is created, because a fork must close the gate before it takes the locks of
/// regions' devices. A fork takes the locks of all other devices and pools before it closes the
/// gate, because a thread that holds such a lock may access a region.
pub(crate) fn register() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    process::begin(put_right);
    page::fork::register_once(&IS_REGISTERED, Hook, Turn::Last);
}

/// In a child, resets the state that the child must not inherit: the counts of threads, the gate
/// and the descriptors.
fn put_right(by: CopyDetectedBy) {
    threads::begin_child();
    if by == CopyDetectedBy::Page {
        GATE.begin_copy();
    }
    descriptor::begin_child();
}

struct Hook;

impl AtFork for Hook {
    /// If the child will have a copy of a region with a userfaultfd, fills all blocks of the
    /// region. In an arena, closes the resident blocks (the next access to each block faults) if
    /// separate copies in parent and child would use too much memory.
    fn prepare(&self) {
        GATE.close_for_fork();
        registry::for_each(|pager| {
            if pager.backend.is_whole_over_forks() {
                bring_all_back(pager);
            } else if pager.is_heap_own && evictable::closes_at_fork(&pager.limit) {
                share_all(pager);
            }
        });
    }

    /// Wakes pager threads, which evict blocks that `prepare` filled.
    fn in_parent(&self) {
        registry::for_each(|pager| {
            if pager.backend.is_whole_over_forks() && pager.limit.is_wanted(0) {
                pager.waker.wake();
            }
        });
        GATE.open_after_fork();
    }

    /// Adapts the state of each region to the child.
    fn in_child(&self) {
        process::begin_child();
        registry::for_each(adapt_in_child);
        GATE.open_after_fork();
    }
}

fn adapt_in_child(pager: &Pager) {
    // If `fork_result` differs from `Copy` in a process, it also differs in all children of the
    // process.
    let was_managed = pager.backend.fork_result() == ForkResult::Copy;
    pager.backend.in_child(&pager.memory);
    if was_managed && pager.backend.fork_result() == ForkResult::Plain {
        keep_all(pager);
    }
    // The child has no compressor thread, but keeps its copy of the queue.
    pager.compressor.state.store(NONE, SeqCst);
    evictable::begin_child(&pager.limit);
    pager.counters.begin_child();
    pager.stored_most.0.store(0, Relaxed);
    pager.weigh();
    // `whole_at` depends on the counter of evicted blocks, which was just reset. The lock is only
    // tried, because the child can lack the thread that holds it (zm-F3).
    if let Some(mut packing) = pager.packing.try_lock() {
        packing.whole_at = 0;
    }
    // Blocks that could not be evicted before the fork may be evictable now.
    pager.limit.set_no_progress(false);
}

/// Fills all blocks of a region, regardless of the limit.
fn bring_all_back(pager: &Pager) {
    let limit = pager.limit.get();
    let _none_is_too_low = pager.limit.set(None);
    // This code uses no heap, because another thread can hold the allocator's lock and wait at the
    // gate (zm-H3).
    signals::set_in_handler(true);
    let mut context = pager.contexts.take(Purpose::Fault);
    for block in 0..pager.blocks() {
        if !matches!(pager.words[block].load().state(), State::Resident | State::Untouched) {
            fault::bring(pager, block, Wanted::from_it_on(pager.batch()), context.buffer());
        }
    }
    signals::set_in_handler(false);
    let _as_it_was = pager.limit.set(limit);
}

/// Makes all blocks permanently resident, in a child that does not manage the region.
fn keep_all(pager: &Pager) {
    let untouched = |block: &usize| pager.words[*block].load().state() == State::Untouched;
    pager.limit.add((0..pager.blocks()).filter(untouched).count());
    chunk::open_all(pager);
    pager.words.iter().for_each(|word| word.keep());
}

/// Closes runs of resident blocks that are not pinned, if a run has at least as many blocks as a
/// group. Closes at most about `groups_max` groups.
fn share_all(pager: &Pager) {
    // The lock is only tried, because this process may be a child that lacks the thread that holds
    // it.
    let Some(clock) = pager.eviction_lock.try_lock() else { return };
    let group = set_group(pager);
    let (mut window, mut groups) = (0, groups_max(pager));
    while window < clock.windows
        && let Some(open) = chunk::next_open_window(pager, window)
    {
        // A chunk can contain several clock windows, and a clock window can contain several chunks.
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

/// Returns the maximum number of groups of shared blocks in a region.
fn groups_max(pager: &Pager) -> usize {
    (2 * pager.mappings.probation_max).max(1)
}

/// Computes and stores the number of blocks in a group. An access opens one group. If every second
/// group is accessed, each group is a separate mapping. Therefore, groups are so large that at most
/// `groups_max` groups exist.
fn set_group(pager: &Pager) -> usize {
    let least = (SHARED_BYTES / pager.sizes.block).max(1);
    let most = pager.mappings.chunk_bytes / pager.sizes.block;
    let needed = pager.limit.resident().div_ceil(groups_max(pager));
    let group = needed.next_power_of_two().clamp(least, most.max(least));
    pager.group.store(group, Relaxed);
    group
}
