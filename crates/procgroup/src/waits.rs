//! Waiting threads, which other processes may poke so that their processes evict memory (zm-L6).

use crate::group::{ProcessGroup, Slot};
use crate::member::GroupMember;
use crate::peers::KEEPS;
use crate::request::Request;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

pub(crate) const POKING: u64 = 1 << 32;
/// If `POKING` is still set after this number of loads of a word, the process that was poking is
/// treated as killed.
const POKE_LOOKS: usize = 100_000;

impl ProcessGroup {
    /// Clears the words that the previous process of the slot may have left, if it was killed.
    pub(crate) fn forget_waits(&self, nth: usize) {
        let Slot { waits, peers, .. } = self.slot(nth);
        [waits, peers].iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Pokes the waiting process that holds the most memory, if that is more than `share`.
    pub(crate) fn poke_idle(&self, share: u64) {
        let held = |nth: usize| {
            let slot = self.slot(nth);
            let may_be = slot.waits.load(Relaxed) != 0 && slot.evictable.load(Relaxed) > 0;
            Some(self.held(nth)).filter(|held| may_be && *held > share)
        };
        self.in_use().for_each(|nth| self.ask_to_look(nth));
        let most = self.in_use().filter_map(|nth| Some((held(nth)?, nth))).max();
        most.into_iter().for_each(|(_, nth)| self.poke(nth, Request::Room));
    }

    /// Asks a process to check whether its debugger has left, if the process waits and keeps its
    /// memory resident for a debugger.
    fn ask_to_look(&self, nth: usize) {
        if self.slot(nth).peers.load(Relaxed) & KEEPS != 0 {
            self.poke(nth, Request::Look);
        }
    }

    /// Sends a request to a process by a signal if the process waits. The process does not continue
    /// before the signal has arrived: see [`GroupMember::waited`].
    fn poke(&self, nth: usize, request: Request) {
        let Slot { process, waits, .. } = self.slot(nth);
        let thread = waits.load(Relaxed);
        let is_free = thread != 0 && thread & POKING == 0;
        if is_free && waits.compare_exchange(thread, thread | POKING, AcqRel, Acquire).is_ok() {
            request.send(process.load(Acquire) as i32, thread as i32);
            let _gone = waits.compare_exchange(thread | POKING, thread, AcqRel, Acquire);
        }
    }
}

impl GroupMember {
    /// Publishes that this thread is about to wait, and may be poked.
    pub fn waits(&self) {
        if let Some(slot) = self.own_slot() {
            let _other = slot.waits.compare_exchange(0, own_thread(), AcqRel, Acquire);
        }
    }

    /// Ends the wait that [`waits`](Self::waits) began. When the function returns, a signal that
    /// was being sent has arrived.
    pub fn waited(&self) {
        let waits = self.slot().map(|slot| slot.waits);
        if waits.is_none_or(|waits| waits.load(Relaxed) == 0) {
            return;
        }
        let thread = own_thread();
        let Some(waits) = waits.filter(|waits| waits.load(Relaxed) & !POKING == thread) else {
            return;
        };
        for _ in 0..POKE_LOOKS {
            if waits.compare_exchange(thread, 0, AcqRel, Acquire) != Err(thread | POKING) {
                break;
            }
            std::thread::yield_now();
        }
        let _killed = waits.compare_exchange(thread | POKING, 0, AcqRel, Acquire);
    }
}

fn own_thread() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get() as u64
}
