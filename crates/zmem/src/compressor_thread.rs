//! The compressor thread, which stores blocks that other threads evict (see the module
//! `background`).

use crate::background::{CompressorThread, Copies, NONE, RUNS, STARTING, STOPS, StartThread};
use crate::counters::count;
use crate::gate::GATE;
use crate::owned::{OwnedRun, own_queued};
use crate::pager::Pager;
use crate::policy::{
    BATCH_BYTES, END_TIME, HANDED_OVER, HEAT_KEPT_MAX, REFUSED_STARTS, START_TIME, STARTS_AT_REST,
    WAITING_SHARE, WEIGHED,
};
use crate::process::shares_memory;
use crate::queue::{BLOCKS_MAX, Taken};
use crate::state::{HEAT_MAX, State, WordValue};
use crate::sync::{Ordering::SeqCst, fence, wait_for, wake};
use crate::threads::run_counted;
use crate::{signals, stored};
use std::sync::{Arc, Weak};

/// Lets a compressor thread store the blocks of this pager. `system` starts this thread.
pub(crate) fn set_starter(pager: &Arc<Pager>, system: &'static dyn StartThread) {
    let _before = pager.starter.set((system, Arc::downgrade(pager)));
}

/// Ends the compressor thread until a later eviction starts it again. Queued blocks stay in the
/// queue.
pub(crate) fn rest(pager: &Pager) {
    let Some((system, _)) = pager.starter.get() else { return };
    // A child of `vfork`, which shares this memory, must not end its parent's thread.
    if shares_memory() {
        return;
    }
    let CompressorThread { state, passed, .. } = &pager.compressor;
    passed.fetch_max(STARTS_AT_REST, SeqCst);
    let last = system.last();
    loop {
        let _runs = state.compare_exchange(RUNS, STOPS, SeqCst, SeqCst);
        pager.compressor.ring();
        if system.has_ended(last, END_TIME) {
            return;
        }
    }
}

/// Returns the queue with its copies, or `None` if no block of this pager can be queued.
fn copies(pager: &Pager) -> Option<&Copies> {
    pager.starter.get()?;
    pager.compressor.copies.get_or_init(|| make_copies(pager)).as_ref()
}

fn make_copies(pager: &Pager) -> Option<Copies> {
    let limit = pager.limit.get()?;
    let bytes = (limit / WAITING_SHARE).min(BATCH_BYTES as u64) as usize;
    let count = bytes / pager.sizes.block;
    // Blocks are queued only if each is stored as an object of its own. Otherwise a thread that
    // accesses a block would wait until other blocks of the object are stored, too.
    let may_wait =
        pager.sizes.device_block <= pager.sizes.block && pager.blocks() <= BLOCKS_MAX && count >= 2;
    if may_wait { Copies::new(1 << count.ilog2(), pager.sizes.block) } else { None }
}

/// Returns the number of blocks that can be queued, up to `most`. Returns 0 if there is no
/// compressor thread, or if most blocks do not compress. The caller holds the eviction lock.
pub(crate) fn waiting_room(pager: &Pager, most: usize) -> usize {
    match copies(pager) {
        Some(copies) if !pager.limit.no_progress.is_braked() && has_thread(pager) => {
            copies.queue.room(most)
        }
        _ => 0,
    }
}

/// Starts the compressor thread if it does not exist. Returns whether the thread runs.
fn has_thread(pager: &Pager) -> bool {
    let CompressorThread { state, passed, is_over, .. } = &pager.compressor;
    match state.load(SeqCst) {
        RUNS => true,
        // A child of `vfork`, which shares this memory, starts no thread. If the child called
        // `execve`, the new thread would end, and locks that it holds would stay locked.
        NONE if !shares_memory() => {
            let seen = passed.load(SeqCst);
            passed.store(seen.saturating_sub(1), SeqCst);
            let may_start = seen == 0 && !is_over.load(SeqCst);
            may_start
                && state.compare_exchange(NONE, STARTING, SeqCst, SeqCst).is_ok()
                && start(pager)
        }
        _ => false,
    }
}

fn start(pager: &Pager) -> bool {
    let start = |(system, own): &(&dyn StartThread, Weak<Pager>)| {
        let own = own.clone();
        let run = move || own.upgrade().iter().for_each(|pager| run(pager));
        system.start(Box::new(|| run_counted("the thread that stores", run)))
    };
    // The new thread inherits a mask that blocks all signals.
    let is_started = signals::without_signals(|| pager.starter.get().is_some_and(start));
    let state = &pager.compressor.state;
    if !is_started {
        pager.compressor.passed.store(REFUSED_STARTS, SeqCst);
        state.store(NONE, SeqCst);
        return false;
    }
    // This wait can't deadlock, because the new thread sets `RUNS` before it takes any lock.
    wait_for(state, STARTING, START_TIME);
    state.load(SeqCst) == RUNS
}

fn run(pager: &Pager) {
    let compressor = &pager.compressor;
    if compressor.state.compare_exchange(STARTING, RUNS, SeqCst, SeqCst).is_err() {
        return;
    }
    wake(&compressor.state);
    let Some(copies) = compressor.made() else { unreachable!("it was started for them") };
    let mut stored = 0;
    loop {
        let is_stopped = compressor.state.load(SeqCst) == STOPS;
        if !is_stopped && store_next(pager, copies) {
            stored += 1;
            if stored % WEIGHED == 0 {
                weigh_inside(pager);
            }
            continue;
        }
        if is_stopped || compressor.sleep(&copies.queue) {
            weigh_inside(pager);
            compressor.state.store(NONE, SeqCst);
            // A thread that loaded `RUNS` from `state` may queue a block without starting a
            // compressor thread. So this thread checks the queue again after it has set `NONE`.
            fence(SeqCst);
            let goes_on = !is_stopped && !copies.queue.is_done();
            if !goes_on || compressor.state.compare_exchange(NONE, RUNS, SeqCst, SeqCst).is_err() {
                wake(&compressor.state);
                return;
            }
        }
    }
}

fn weigh_inside(pager: &Pager) {
    let _inside = GATE.enter();
    pager.weigh_device();
}

/// Stores the oldest block of the queue on the device. Returns false if the queue was empty.
fn store_next(pager: &Pager, copies: &Copies) -> bool {
    let _inside = GATE.enter();
    let Some(taken) = copies.queue.take() else { return false };
    let block = taken.block;
    let data = copies.data[taken.slot].lock();
    if stored::is_stored(pager, block..block + 1, &data) {
        drop((data, taken));
        count(&pager.counters.evicted, 1);
        count(&pager.counters.aside, 1);
        let round = pager.round();
        let own = own_queued(pager, block);
        own.publish(State::Evicted, |_, word| word.with_heat(round).with_copy(false));
        return true;
    }
    let own = put_back(pager, &taken, &data);
    count(&pager.compressor.returned, 1);
    drop((data, taken));
    // Even though storing failed, the device may hold some of the block's data.
    publish_put_back(pager, own, HEAT_MAX, true);
    true
}

/// Takes a block out of the queue, and makes it resident. Returns false if the block is not queued.
/// The caller is inside the gate.
pub(crate) fn take_back(pager: &Pager, block: usize) -> bool {
    let Some(copies) = pager.compressor.made() else { return false };
    let Some(taken) = copies.queue.take_back(block) else { return false };
    let own = put_back(pager, &taken, &copies.data[taken.slot].lock());
    drop(taken);
    count(&pager.counters.stolen, 1);
    publish_put_back(pager, own, HEAT_KEPT_MAX, false);
    true
}

/// Fills a queued block from its copy in the queue, and counts the block as resident. Returns the
/// owned block.
fn put_back<'p>(pager: &'p Pager, taken: &Taken<'_>, data: &[u8]) -> OwnedRun<'p> {
    let mut own = own_queued(pager, taken.block);
    own.count(true);
    match pager.try_stop_world() {
        Some(stopped) => own.fill_in_place(&stopped, |place| place.copy_from_slice(data)),
        None => own.fill(data),
    }
    own
}

/// Publishes the state `Resident` of a block that `put_back` has filled. If `is_stored` is true,
/// the data that the device holds for the block become the block's copy (zm-S5).
fn publish_put_back(pager: &Pager, own: OwnedRun<'_>, heat: u32, is_stored: bool) {
    let has_copy = |word: WordValue| word.has_copy() || is_stored;
    if own.blocks().any(|block| has_copy(pager.words[block].load())) {
        stored::note_copies(pager, own.blocks());
    }
    own.publish(State::Resident, |_, word| word.with_heat(heat).with_copy(has_copy(word)));
}

/// If a block is queued, takes the block out of the queue and makes it resident. Otherwise waits
/// while another thread owns the block. The wait may end early.
pub(crate) fn wait_for_block(pager: &Pager, block: usize, seen: WordValue) {
    let word = &pager.words[block];
    if take_back(pager, block) {
        return;
    }
    if pager.compressor.bytes() > 0 {
        // The owner may queue the block while no compressor thread exists. So this thread waits
        // with a timeout, and its caller then checks the queue again.
        return word.wait_for(seen, HANDED_OVER);
    }
    GATE.wait_for_owner(|| word.load() != seen, || word.wait(seen));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Data;
    use crate::contexts::Purpose;
    use crate::memory::{Managed, pages};
    use crate::owned::own_block;
    use crate::pager::Contents;
    use crate::recent::Wanted;
    use crate::{Options, Use};
    use crate::{chunk, fault, range_calls, uses};
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;
    use std::time::Duration;
    use testkit::wait::until;

    #[derive(Debug)]
    struct Refuses;

    impl StartThread for Refuses {
        fn start(&self, _: Box<dyn FnOnce() + Send>) -> bool {
            false
        }

        fn last(&self) -> u32 {
            0
        }

        fn has_ended(&self, _: u32, _: Duration) -> bool {
            true
        }
    }

    /// A block may be queued while no compressor thread exists, so a thread that waits for the
    /// block takes it out of the queue.
    #[test]
    fn what_is_handed_over_while_it_is_waited_for_is_taken_back() {
        let memory = Managed::map(2 << 20, 2 << 20).unwrap();
        let options = Options { limit: Some(64 << 20), ..Options::default() };
        let pager = Arc::new(Pager::new(memory, Contents::Vacant, &options).unwrap());
        chunk::begin(&pager, Contents::Vacant);
        set_starter(&pager, &Refuses);
        let one = Wanted::from_it_on(1);
        let bring = || fault::bring(&pager, 0, one, pager.contexts.take(Purpose::Call).buffer());
        uses::set_use(&pager, 0..1, Use::Managed, pager.contexts.take(Purpose::Call).buffer())
            .unwrap();
        assert_eq!(bring(), 0..1);
        assert_eq!(waiting_room(&pager, 1), 0, "nobody would store it");
        let own = own_block(&pager, 0, pager.words[0].load()).unwrap();
        thread::scope(|scope| {
            let touch = scope.spawn(bring);
            until("it is waited for", || pager.counters.waits.load(Relaxed) > 0);
            thread::sleep(Duration::from_millis(5));
            own.drop_pages(Data::Open).unwrap();
            own.queue(&vec![7; pager.sizes.block]);
            until("it is taken back", || touch.is_finished());
        });
        let mut data = vec![0; pager.sizes.block];
        pages::read_protected(&pager.memory, 0, &mut data).unwrap();
        assert!(data.iter().all(|byte| *byte == 7));
        range_calls::check(&pager);
    }
}
