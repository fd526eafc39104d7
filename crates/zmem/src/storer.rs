//! The compressor thread, which stores blocks that other threads have evicted and put aside: see
//! `aside`.

use crate::aside::{Copies, NONE, RUNS, STARTING, STOPS, StartThread};
use crate::fatal::fatal;
use crate::gate::GATE;
use crate::owned::{OwnedRun, own_queued};
use crate::pager::Pager;
use crate::policy::{BATCH_BYTES, HEAT_KEPT_MAX};
use crate::process::shares_memory;
use crate::queue::{BLOCKS_MAX, Taken};
use crate::signals;
use crate::state::{HEAT_MAX, State, WordValue};
use crate::stats::count;
use crate::sync::{Ordering::SeqCst, fence, wait_for, wake};
use crate::threads::OwnThread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Waiting copies use at most this share (1/64) of a limit.
const WAITING_SHARE: u64 = 64;
/// The maximum time to wait until a started thread runs. Until then, the kernel counts the thread,
/// but this crate does not.
const START_TIME: Duration = Duration::from_micros(200);
/// The number of starts that are skipped after the system refused one.
const REFUSED_STARTS: u32 = 1000;
/// The number of stored blocks after which the device's memory is measured.
const WEIGHED: usize = 16;

impl Pager {
    /// Lets a compressor thread, which `system` starts, store the blocks that this pager evicts.
    pub(crate) fn store_aside(self: &Arc<Self>, system: &'static dyn StartThread) {
        let pager = Arc::downgrade(self);
        self.storer.set_starter(system, move || {
            let pager = pager.clone();
            Box::new(move || {
                let _counted = OwnThread::begin();
                let Some(pager) = pager.upgrade() else { return };
                if catch_unwind(AssertUnwindSafe(|| pager.run_storer())).is_err() {
                    fatal("the thread that stores", &"it panicked");
                }
            })
        });
    }

    /// Returns the waiting copies, if blocks of this pager may be put aside.
    fn copies(&self) -> Option<&Copies> {
        let copies = match self.storer.copies.get() {
            Some(copies) => copies,
            None => {
                self.storer.starter.get()?;
                self.storer.copies.get_or_init(|| self.make_copies())
            }
        };
        copies.as_ref()
    }

    fn make_copies(&self) -> Option<Copies> {
        let limit = self.limit.get()?;
        let bytes = (limit / WAITING_SHARE).min(BATCH_BYTES as u64) as usize;
        let count = bytes / self.sizes.block;
        // If blocks that are stored together have different states, a thread would wait for parts
        // of the stored block.
        let may_wait = self.sizes.device_block <= self.sizes.block
            && self.blocks() <= BLOCKS_MAX
            && count >= 2;
        if may_wait { Copies::new(1 << count.ilog2(), self.sizes.block) } else { None }
    }

    /// Returns how many blocks may be put aside to be stored, up to `most`. Returns 0 if there is
    /// no thread to store them, or if most of them would become resident again because they do not
    /// compress. The caller holds the eviction lock.
    pub(crate) fn waiting_room(&self, most: usize) -> usize {
        match self.copies() {
            Some(copies) if !self.limit.stuck.is_braked() && self.has_storer() => {
                copies.queue.room(most)
            }
            _ => 0,
        }
    }

    /// Returns whether a compressor thread runs. Starts the thread if none runs.
    fn has_storer(&self) -> bool {
        let state = &self.storer.state;
        match state.load(SeqCst) {
            RUNS => true,
            // A process that shares this memory may call `execve`: its thread would disappear
            // without releasing its locks.
            NONE if !shares_memory() && self.may_start() => {
                state.compare_exchange(NONE, STARTING, SeqCst, SeqCst).is_ok() && self.start()
            }
            _ => false,
        }
    }

    /// Returns true if a thread may be started now, or false if this start is skipped.
    fn may_start(&self) -> bool {
        let passed = self.storer.passed.load(SeqCst);
        self.storer.passed.store(passed.saturating_sub(1), SeqCst);
        passed == 0 && !self.storer.is_over.load(SeqCst)
    }

    fn start(&self) -> bool {
        let start = || self.storer.starter.get().is_some_and(|starter| starter.start());
        // A thread inherits the mask of the thread that starts it.
        let is_started = signals::without_signals(start);
        let state = &self.storer.state;
        if !is_started {
            self.storer.passed.store(REFUSED_STARTS, SeqCst);
            state.store(NONE, SeqCst);
            return false;
        }
        // The new thread sets `RUNS` as soon as it runs, and takes no lock before that.
        wait_for(state, STARTING, START_TIME);
        state.load(SeqCst) == RUNS
    }

    /// Puts a block aside for the compressor thread, which owns the block from now on. The queue
    /// has room for the block, and the block's pages were dropped. The caller holds the store's
    /// lock.
    pub(crate) fn hand_over(&self, block: usize, data: &[u8]) {
        let Some(copies) = self.storer.made() else { unreachable!("there was room") };
        copies.queue.offer(block, |slot| copies.data[slot].lock().copy_from_slice(data));
    }

    /// The code of the compressor thread.
    fn run_storer(&self) {
        let storer = &self.storer;
        if storer.state.compare_exchange(STARTING, RUNS, SeqCst, SeqCst).is_err() {
            return;
        }
        wake(&storer.state);
        let Some(copies) = storer.made() else { unreachable!("it was started for them") };
        let mut stored = 0;
        loop {
            let is_stopped = storer.state.load(SeqCst) == STOPS;
            if !is_stopped && self.store_next(copies) {
                stored += 1;
                if stored % WEIGHED == 0 {
                    self.weigh_inside();
                }
                continue;
            }
            if is_stopped || storer.sleep(&copies.queue) {
                self.weigh_inside();
                storer.state.store(NONE, SeqCst);
                // A thread that put a block aside before it could read `NONE` relies on this thread
                // to store the block.
                fence(SeqCst);
                let goes_on = !is_stopped && !copies.queue.is_done();
                if !goes_on || storer.state.compare_exchange(NONE, RUNS, SeqCst, SeqCst).is_err() {
                    wake(&storer.state);
                    return;
                }
            }
        }
    }

    fn weigh_inside(&self) {
        let _inside = GATE.enter();
        self.weigh_device();
    }

    /// Stores the block that has waited longest. Returns whether a block waited.
    fn store_next(&self, copies: &Copies) -> bool {
        let _inside = GATE.enter();
        let Some(taken) = copies.queue.take() else { return false };
        let block = taken.block;
        let data = copies.data[taken.slot].lock();
        if self.is_stored(block..block + 1, &data) {
            drop((data, taken));
            count(&self.counters.evicted, 1);
            count(&self.counters.aside, 1);
            let round = self.round();
            let own = own_queued(self, block);
            own.publish(State::Evicted, |_, word| word.with_heat(round).with_copy(false));
            return true;
        }
        let own = self.put_back(&taken, &data);
        count(&self.storer.returned, 1);
        drop((data, taken));
        // The device may hold part of the block, even if storing failed.
        self.publish_put_back(own, HEAT_MAX, true);
        true
    }

    /// Takes back a block that waits to be stored. Returns whether the block was taken back; if
    /// not, the block has no owner or another owner. The caller is inside the gate.
    pub(crate) fn take_back(&self, block: usize) -> bool {
        let Some(copies) = self.storer.made() else { return false };
        let Some(taken) = copies.queue.take_back(block) else { return false };
        let own = self.put_back(&taken, &copies.data[taken.slot].lock());
        drop(taken);
        count(&self.counters.stolen, 1);
        self.publish_put_back(own, HEAT_KEPT_MAX, false);
        true
    }

    /// Fills a block from its copy, and counts it. Returns the block.
    fn put_back(&self, taken: &Taken<'_>, data: &[u8]) -> OwnedRun<'_> {
        let mut own = own_queued(self, taken.block);
        own.count(true);
        match self.try_stop_world() {
            Some(alone) => own.fill_in_place(&alone, |place| place.copy_from_slice(data)),
            None => own.fill(data),
        }
        own
    }

    /// Makes a block that was taken back resident. The device's data of the block become a copy.
    fn publish_put_back(&self, own: OwnedRun<'_>, heat: u32, is_stored: bool) {
        let has_copy = |word: WordValue| word.has_copy() || is_stored;
        if own.blocks().any(|block| has_copy(self.words[block].load())) {
            self.note_copies(own.blocks());
        }
        own.publish(State::Resident, |_, word| word.with_heat(heat).with_copy(has_copy(word)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Data;
    use crate::contexts::Purpose;
    use crate::memory::Managed;
    use crate::order::Wanted;
    use crate::owned::own_block;
    use crate::pager::Contents;
    use crate::{Options, Use};
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;
    use testkit::wait::until;

    /// A system that refuses to start threads.
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

    /// Only the waiting thread itself can take the block back, because the compressor thread may
    /// have ended.
    #[test]
    fn what_is_handed_over_while_it_is_waited_for_is_taken_back() {
        let memory = Managed::map(2 << 20, 2 << 20).unwrap();
        let options = Options { limit: Some(64 << 20), ..Options::default() };
        let pager = Arc::new(Pager::new(memory, Contents::Vacant, &options).unwrap());
        pager.store_aside(&Refuses);
        let one = Wanted::from_it_on(1);
        let bring = || pager.bring(0, one, &mut pager.contexts.take(Purpose::Call));
        pager.set_use(0..1, Use::Managed, &mut pager.contexts.take(Purpose::Call)).unwrap();
        assert_eq!(bring(), 0..1);
        assert_eq!(pager.waiting_room(1), 0, "nobody would store it");
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
        pager.memory.read_protected(0, &mut data).unwrap();
        assert!(data.iter().all(|byte| *byte == 7));
        pager.check();
    }
}
