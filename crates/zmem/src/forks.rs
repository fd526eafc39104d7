//! Forks of a process that has regions. Before a fork, blocks with marks of a userfaultfd are
//! filled, because a child does not inherit these marks. In a child, the state of each region is
//! adapted. All functions run while the gate is closed, so no other thread changes a block.

use crate::backend::ForkResult;
use crate::contexts::Purpose;
use crate::gate::{self, Forks};
use crate::limit::evictable;
use crate::pager::Pager;
use crate::recent::Wanted;
use crate::state::State;
use crate::{chunk, fault, registry, shared, signals};
use std::sync::atomic::Ordering::Release;

/// Makes each fork close the gate and call the functions below. The caller calls this before it
/// creates the first device, because a fork must close the gate before it takes the locks of
/// devices.
pub(crate) fn register() {
    gate::register(Forks { prepare, in_parent, in_child });
}

/// Fills all blocks of regions that have a userfaultfd and that a child inherits as copies. If
/// processes share the limit, closes resident blocks in parent and child if private copies of these
/// blocks would use too much memory.
fn prepare() {
    registry::for_each(|pager| {
        if pager.backend.is_whole_over_forks() {
            bring_all_back(pager);
        } else if pager.is_heap_own && evictable::closes_at_fork(&pager.limit) {
            shared::share_all(pager);
        }
    });
}

/// Wakes the pager threads, so that they evict again the blocks that `prepare` filled.
fn in_parent() {
    registry::for_each(|pager| {
        if pager.backend.is_whole_over_forks() && pager.limit.is_wanted(0) {
            pager.waker.wake();
        }
    });
}

/// Determines which part of each region a child has, and adapts the state of the region.
fn in_child() {
    registry::for_each(|pager| {
        let fork_result = pager.backend.in_child(&pager.memory);
        // The value never returns to `Copy`, because the child's children lack the same memory as
        // the child.
        if fork_result != ForkResult::Copy {
            pager.fork_result.store(fork_result as u32, Release);
        }
        if fork_result == ForkResult::Plain {
            keep_all(pager);
        }
        pager.compressor.begin_child();
        evictable::begin_child(&pager.limit);
        pager.counters.begin_child();
        pager.stored_most.begin();
        pager.weigh();
        // The value is compared with the counter of evicted blocks, which was just reset.
        pager.packing.lock().whole_at = 0;
        // Blocks that could not be evicted before may be evictable now.
        pager.limit.set_no_progress(false);
    });
}

/// Fills all blocks, regardless of the limit.
fn bring_all_back(pager: &Pager) {
    let limit = pager.limit.get();
    let _none_is_too_low = pager.limit.set(None);
    // As in a signal handler, this code must not use the heap, because another thread may hold
    // the allocator's lock and wait for the gate (zm-H3).
    signals::set_in_handler(true);
    let mut context = pager.contexts.take(Purpose::Fault);
    for block in 0..pager.blocks() {
        if !matches!(pager.words[block].load().state(), State::Resident | State::Untouched) {
            fault::bring(pager, block, Wanted::from_it_on(pager.batch()), &mut context);
        }
    }
    signals::set_in_handler(false);
    let _as_it_was = pager.limit.set(limit);
}

/// Makes all blocks permanently resident, in a child whose memory is no longer managed.
fn keep_all(pager: &Pager) {
    let untouched = |block: &usize| pager.words[*block].load().state() == State::Untouched;
    pager.limit.add((0..pager.blocks()).filter(untouched).count());
    chunk::open_all(pager);
    pager.words.iter().for_each(|word| word.keep());
}
