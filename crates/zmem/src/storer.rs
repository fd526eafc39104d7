//! A thread that stores what others have evicted: these copy a block, give its pages up and go on,
//! and the thread compresses the copy (zm-Q1 to zm-Q6).
//!
//! ```text
//!   evicts: copied, marked, pages dropped -> queue -> the thread: the device -> Evicted
//!                                               '---> a touch: put back -> Resident
//! ```
//! An arena has one if its caller can start threads that the program does not know of. The thread
//! ends where nothing was evicted for a while, and where it is asked to.

use crate::fatal::fatal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::policy::{BATCH_BYTES, HEAT_KEPT_MAX};
use crate::process::shares_memory;
use crate::queue::{Queue, Taken, UNITS_MAX};
use crate::state::{HEAT_MAX, Seen, State};
use crate::stats::count;
use crate::sync::{AtomicU32, Ordering::SeqCst, fence, wait_for, wake};
use crate::threads::{self, OwnThread};
use page::fork::Mutex;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Copies that wait take this share of a limit at most.
const WAITING_SHARE: u64 = 64;
/// A thread without work ends after this time.
const IDLE_TIME: Duration = Duration::from_millis(50);
/// So long is waited for a thread that was started to run: the system counts it before it counts
/// itself.
const START_TIME: Duration = Duration::from_micros(200);
/// After a start that the system refused, so many are not tried.
const REFUSED_STARTS: u32 = 1000;
/// A thread that is to end is told so again after this time.
const END_TIME: Duration = Duration::from_millis(5);
/// What the device takes is looked at after so many blocks.
const WEIGHED: usize = 16;

/// Starts a thread that the program knows nothing of.
pub trait StartThread: Debug + Send + Sync {
    /// Starts a thread that calls `run` and ends. It has all signals blocked, and this crate's
    /// thread-local storage. Returns whether it was started; not so if the last one is still there.
    fn start(&self, run: Box<dyn FnOnce() + Send>) -> bool;

    /// Returns a number of the thread that was started last, 0 if there was none.
    fn last(&self) -> u32;

    /// Waits until the system has no more of the thread with that number, for `time` at most.
    /// Returns whether it has none.
    fn has_ended(&self, last: u32, time: Duration) -> bool;
}

const NONE: u32 = 0;
const STARTING: u32 = 1;
const RUNS: u32 = 2;
const STOPS: u32 = 3;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Storer {
    /// What starts the thread, and the pager that it works for.
    starter: OnceLock<(&'static dyn StartThread, Weak<Pager>)>,
    /// Made with the first block that waits; `None` if none may.
    copies: OnceLock<Option<Copies>>,
    /// `NONE`, `STARTING`, `RUNS`, `STOPS`: of the thread, in this process.
    state: AtomicU32,
    /// What the thread waits for: it changes with what it is to look at.
    bell: AtomicU32,
    sleeps: AtomicU32,
    /// Starts that are not tried, as one was refused.
    refused: AtomicU32,
    /// Whether no thread is to be started any more.
    is_over: AtomicBool,
}

/// Blocks that wait, and their contents.
#[derive(Debug)]
struct Copies {
    queue: Queue,
    /// Of each slot: locked by who has what is in it, so nobody ever waits for one.
    data: Box<[Mutex<Box<[u8]>>]>,
    bytes: usize,
}

impl Copies {
    /// Makes room for `count` blocks of `bytes` bytes, if there is memory.
    fn new(count: usize, bytes: usize) -> Option<Self> {
        let block = |_| {
            let mut block = Vec::new();
            block.try_reserve_exact(bytes).ok()?;
            block.resize(bytes, 0);
            Some(Mutex::new(block.into()))
        };
        let data = (0..count).map(block).collect::<Option<_>>()?;
        Some(Copies { queue: Queue::new(count), data, bytes: count * bytes })
    }
}

impl Storer {
    /// Takes note of what starts the thread.
    pub(crate) fn set_starter(&self, starter: &'static dyn StartThread, pager: &Arc<Pager>) {
        // On one processor it would only take turns.
        if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
            let _before = self.starter.set((starter, Arc::downgrade(pager)));
        }
    }

    /// Returns the bytes of the copies.
    pub(crate) fn bytes(&self) -> u64 {
        self.made().map_or(0, |copies| copies.bytes) as u64
    }

    /// Returns the copies, if they were made.
    fn made(&self) -> Option<&Copies> {
        self.copies.get()?.as_ref()
    }

    /// Begins in a child, which has no such thread. What waits in its copy of the queue is its own.
    pub(crate) fn begin_child(&self) {
        self.state.store(NONE, SeqCst);
    }

    /// Ends the thread, until something is evicted again. What waits still does.
    pub(crate) fn rest(&self) {
        let Some((starter, _)) = self.starter.get() else { return };
        // A process that uses another one's memory leaves that one's thread alone.
        if shares_memory() {
            return;
        }
        let last = starter.last();
        loop {
            let _runs = self.state.compare_exchange(RUNS, STOPS, SeqCst, SeqCst);
            self.ring();
            if starter.has_ended(last, END_TIME) {
                return;
            }
        }
    }

    /// Ends it for good.
    pub(crate) fn end(&self) {
        self.is_over.store(true, SeqCst);
        self.rest();
    }

    /// Has the thread look at the queue.
    fn ring(&self) {
        fence(SeqCst);
        if self.sleeps.load(SeqCst) != 0 {
            self.bell.fetch_add(1, SeqCst);
            wake(&self.bell);
        }
    }

    /// Waits until there is something to look at, or nothing came for a while. Returns whether the
    /// time is over.
    fn sleep(&self, queue: &Queue) -> bool {
        let seen = self.bell.load(SeqCst);
        self.sleeps.store(1, SeqCst);
        fence(SeqCst);
        let is_due = !queue.is_done() || self.state.load(SeqCst) == STOPS;
        if !is_due {
            wait_for(&self.bell, seen, IDLE_TIME);
        }
        self.sleeps.store(0, SeqCst);
        !is_due && self.bell.load(SeqCst) == seen
    }
}

impl Pager {
    /// Returns the copies that wait, if blocks of this pager may.
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
        let count = bytes / self.blocks.unit;
        // What is stored as one, and has several states, would be waited for in parts.
        let may_wait =
            self.blocks.stored <= self.blocks.unit && self.units() <= UNITS_MAX && count >= 2;
        if may_wait { Copies::new(1 << count.ilog2(), self.blocks.unit) } else { None }
    }

    /// Returns how many blocks may be handed over to be stored, up to `most`: none if nobody would
    /// store them. The caller has the store's lock.
    pub(crate) fn waiting_room(&self, most: usize) -> usize {
        match self.copies() {
            Some(copies) if self.has_storer() => copies.queue.room(most),
            _ => 0,
        }
    }

    /// Returns whether there is a thread that stores, and starts one if not.
    fn has_storer(&self) -> bool {
        let state = &self.storer.state;
        match state.load(SeqCst) {
            RUNS => true,
            // A thread of a process that shares this memory would be gone once that executes a
            // program, with what it has locked.
            NONE if !shares_memory() && self.may_start() => {
                state.compare_exchange(NONE, STARTING, SeqCst, SeqCst).is_ok() && self.start()
            }
            _ => false,
        }
    }

    /// Returns whether a start is worth a try.
    fn may_start(&self) -> bool {
        let refused = self.storer.refused.load(SeqCst);
        self.storer.refused.store(refused.saturating_sub(1), SeqCst);
        refused == 0 && !self.storer.is_over.load(SeqCst)
    }

    fn start(&self) -> bool {
        let Some((starter, pager)) = self.storer.starter.get() else { return false };
        let pager = pager.clone();
        let is_started = starter.start(Box::new(move || {
            let _counted = OwnThread::begin();
            let Some(pager) = pager.upgrade() else { return };
            let stores = AssertUnwindSafe(|| pager.run_storer());
            if catch_unwind(stores).is_err() {
                fatal("the thread that stores", &"it panicked");
            }
        }));
        let state = &self.storer.state;
        if !is_started {
            self.storer.refused.store(REFUSED_STARTS, SeqCst);
            state.store(NONE, SeqCst);
            return false;
        }
        // It says that it runs as soon as it does, and takes no lock before.
        wait_for(state, STARTING, START_TIME);
        state.load(SeqCst) == RUNS
    }

    /// Has a block be stored by the thread, which owns it from now on. There is room for it, and
    /// its pages are gone. The caller has the store's lock.
    pub(crate) fn hand_over(&self, unit: usize, data: &[u8]) {
        let Some(copies) = self.storer.made() else { unreachable!("there was room") };
        copies.queue.offer(unit, |slot| copies.data[slot].lock().copy_from_slice(data));
    }

    /// Has the thread begin with what was handed over.
    pub(crate) fn ring_storer(&self) {
        self.storer.ring();
    }

    /// The thread.
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
                // Who handed something over before it saw that counts on this thread.
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

    /// Stores the block that has waited longest. Returns whether there was one.
    fn store_next(&self, copies: &Copies) -> bool {
        let _inside = GATE.enter();
        let Some(taken) = copies.queue.take() else { return false };
        let (unit, bytes) = (taken.unit, self.bytes_of(taken.unit..taken.unit + 1));
        let data = copies.data[taken.slot].lock();
        // What is stored raw takes as much as it did; so does most of a unit, or none of it.
        let blocks = (data.len() / self.blocks.stored) as u64;
        match self.device.write_telling(bytes.start as u64, &data) {
            Ok(written) if written.raw * 2 < blocks + 1 => {
                drop((data, taken));
                count(&self.counters.evicted, 1);
                count(&self.counters.aside, 1);
                let round = self.round();
                let stored = |word: Seen| word.with_heat(round).with_copy(false);
                self.words[unit].publish(State::Evicted, stored);
                return true;
            }
            Ok(_) => count(&self.counters.incompressible, 1),
            Err(_) => count(&self.counters.refused, 1),
        }
        self.limit.add(1);
        let filled = self.backend.fill(&self.memory, bytes, &data);
        self.expect("a block can't be put back", filled);
        drop((data, taken));
        // Some of it may have been written, even where that failed.
        self.publish_put_back(unit, HEAT_MAX, true);
        true
    }

    /// Puts a block back that waits to be stored. Returns whether it did; if not, nobody owns it,
    /// or another thread does. The caller is inside the gate.
    pub(crate) fn take_back(&self, unit: usize) -> bool {
        let Some(copies) = self.storer.made() else { return false };
        let Some(taken) = copies.queue.take_back(unit) else { return false };
        self.put_back(&taken, &copies.data[taken.slot].lock());
        drop(taken);
        count(&self.counters.stolen, 1);
        self.publish_put_back(unit, HEAT_KEPT_MAX, false);
        true
    }

    fn put_back(&self, taken: &Taken<'_>, data: &[u8]) {
        let bytes = self.bytes_of(taken.unit..taken.unit + 1);
        self.limit.add(1);
        match if self.backend.opens_first() { threads::alone() } else { None } {
            Some(alone) => {
                let opened = self.backend.fill_zeros(&self.memory, bytes.clone());
                self.expect("memory can't be opened", opened);
                self.memory.with_bytes(bytes, &alone, |place| place.copy_from_slice(data));
            }
            None => {
                let filled = self.backend.fill(&self.memory, bytes, data);
                self.expect("a block can't be filled", filled);
            }
        }
    }

    /// Makes a block resident that was put back. What the device has of it by now is a copy.
    fn publish_put_back(&self, unit: usize, heat: u32, is_stored: bool) {
        let has_copy = |word: Seen| word.has_copy() || is_stored;
        if has_copy(self.words[unit].load()) {
            self.note_copies(unit..unit + 1);
        }
        self.words[unit]
            .publish(State::Resident, |word| word.with_heat(heat).with_copy(has_copy(word)));
    }
}
