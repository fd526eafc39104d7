//! Waiting threads that other processes poke if necessary. A poked thread receives a signal and
//! evicts memory of its process (zm-L6).
//!
//! ```text
//!   word `waits` of a slot: the waiting thread that may be poked, or 0; with `POKING` while it is
//!   being poked
//! ```

use crate::group::ProcessGroup;
use crate::layout::Slot;
use crate::peers::{KEEPS, Peers};
use crate::request::{Request, await_sent};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

pub(crate) const POKING: u64 = 1 << 32;

/// Pokes the waiting process that holds the most memory, if that process holds more than `share`
/// bytes. Asks each waiting process that keeps its memory resident for a debugger to check whether
/// the debugger has left.
pub(crate) fn poke_idle(group: &ProcessGroup, share: u64) {
    let held = |nth: usize| {
        let slot = group.slot(nth);
        let may_be = slot.waits.load(Relaxed) != 0 && slot.evictable.load(Relaxed) > 0;
        Some(group.held(nth)).filter(|held| may_be && *held > share)
    };
    let slots = group.in_use().map(|nth| group.slot(nth));
    let keeping = slots.filter(|slot| Peers::of(slot).has(KEEPS));
    keeping.for_each(|slot| poke(&slot, Request::Look));
    let most = group.in_use().filter_map(|nth| Some((held(nth)?, nth))).max();
    most.into_iter().for_each(|(_, nth)| poke(&group.slot(nth), Request::Room));
}

/// Sends a request by a signal to the waiting thread of the slot's process. Does nothing if no
/// thread waits. [`end`] delays the thread until the signal has arrived.
fn poke(slot: &Slot<'_>, request: Request) {
    let Slot { process, waits, .. } = slot;
    let thread = waits.load(Relaxed);
    let is_free = thread != 0 && thread & POKING == 0;
    if is_free && waits.compare_exchange(thread, thread | POKING, AcqRel, Acquire).is_ok() {
        request.send(process.load(Acquire) as i32, thread as i32);
        let _gone = waits.compare_exchange(thread | POKING, thread, AcqRel, Acquire);
    }
}

/// Publishes that this thread is about to wait. From then on, other processes can poke the thread.
pub(crate) fn begin(slot: &Slot<'_>) {
    let _other = slot.waits.compare_exchange(0, own_thread(), AcqRel, Acquire);
}

/// Ends the wait that [`begin`] began. If another process was sending a signal to this thread, the
/// signal has arrived when the function returns.
pub(crate) fn end(slot: &Slot<'_>) {
    let waits = slot.waits;
    let thread = waits.load(Relaxed) & !POKING;
    if thread == 0 || thread != own_thread() {
        return;
    }
    let clear = |word| waits.compare_exchange(word, 0, AcqRel, Acquire);
    await_sent(|| clear(thread) != Err(thread | POKING));
    let _killed = clear(thread | POKING);
}

fn own_thread() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get() as u64
}
