//! Makes room for blocks that a fault will fill. The pager thread evicts other blocks. If there is
//! no pager thread, the faulting thread evicts.

use crate::evict::{self, Goal};
use crate::gate::{GATE, inside};
use crate::limit::evictable;
use crate::pager::{Packing, Pager};
use crate::policy::{
    GAIN_SHARE, OVER_LIMIT_GAIN_SHARE, PACK_PAUSE, PACK_TIME_MAX, PROGRESS_SHARE, ROOM_TICK,
    ROOM_TIME, ROOM_TIME_MAX, STEP_BYTES, STEP_SHARE, WHOLE_MAX,
};
use crate::recent::Spares;
use crate::stored;
use crate::sync::wait_for;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;

/// Makes room for `blocks` further resident blocks. The caller owns no block. `buf` is the buffer
/// of the caller's context.
pub(crate) fn make_room(pager: &Pager, blocks: usize, buf: &mut [u8]) {
    if pager.limit.shared.as_ref().is_some_and(|shared| shared.is_measurement_due()) {
        evictable::weigh_process(&pager.limit);
    }
    if evictable::is_over_limit(&pager.limit) {
        regain_limit(pager);
    }
    if !pager.limit.is_wanted(blocks) {
        return;
    }
    // After an unsuccessful eviction, the next attempt is made when more blocks have become
    // resident, or after a pause.
    if pager.limit.has_no_progress() && (pager.waker.watch() || !pager.limit.may_try()) {
        return;
    }
    if pager.waker.wake() {
        return wait_for_room(pager, blocks);
    }
    let is_full = pager.limit.is_full(blocks);
    if evictable::wants_of_others(&pager.limit) && !is_full {
        return;
    }
    // The holder of the lock does not wait for threads that wait here (zm-S4). A copy of the
    // process may lack the thread that holds the lock, so in a copy the lock is only tried.
    let waits = is_full && !GATE.is_torn();
    let clock =
        if waits { Some(pager.eviction_lock.lock()) } else { pager.eviction_lock.try_lock() };
    if let Some(mut clock) = clock.filter(|_| pager.limit.is_wanted(blocks)) {
        // A process above its limit, for example a child after a fork, evicts in larger steps.
        let least = if pager.limit.is_passed() { pager.step_blocks() } else { pager.batch() };
        let wanted = least.min(blocks_above_floor(pager)).max(blocks);
        let goal = Goal::AtLeast(wanted);
        paced(pager, wanted, || evict::evict(pager, &mut clock, goal, Spares::Recent, buf));
        drop(clock);
        if pager.is_heap_own {
            pack_where_tight(pager);
        }
    }
}

/// Calls `evict`, and records whether the eviction was successful: whether it evicted at least
/// 1/`PROGRESS_SHARE` of the `wanted` blocks. Blocks that became resident again because they did
/// not compress do not count as evicted. Without the record, each further fault or call would try
/// to evict all incompressible blocks again.
pub(crate) fn paced(pager: &Pager, wanted: usize, evict: impl FnOnce() -> usize) {
    let returned = || pager.compressor.returned.load(Relaxed);
    let dense = || pager.counters.incompressible.load(Relaxed);
    let (began, before, dense_before) = (Instant::now(), returned(), dense());
    let gone = evict().saturating_sub((returned() - before) as usize);
    if gone < wanted.div_ceil(PROGRESS_SHARE) {
        pager.limit.set_no_progress(true);
        pager.limit.no_progress.postpone(began.elapsed(), dense() > dense_before);
    } else {
        pager.limit.no_progress.succeed();
    }
}

/// Returns the number of resident blocks above the floor, or the number of blocks in a batch if
/// that number is larger.
pub(crate) fn blocks_above_floor(pager: &Pager) -> usize {
    let above = evictable::above_floor(&pager.limit) as usize / pager.sizes.block;
    above.max(pager.batch())
}

/// Frees the copies of resident or freed blocks on the device, and measures the device again. An
/// eviction would do the same, but none occurs while this process holds no more than its floor.
fn regain_limit(pager: &Pager) {
    if let Some(_lock) = pager.eviction_lock.try_lock() {
        stored::drop_copies(pager);
        pager.weigh();
    }
    if pager.is_heap_own {
        pack_where_tight(pager);
    } else {
        pager.waker.wake();
    }
}

/// Packs the device if room is tight and no other thread packs. The caller is inside the gate.
/// Packing allocates memory, so this function is not called in a fault that may have interrupted
/// the allocator.
fn pack_where_tight(pager: &Pager) {
    if let Some(mut packing) = pager.packing.try_lock() {
        pack_if_tight(pager, &mut packing);
    }
}

/// Packs the device if unevictable memory leaves little room below the limit. In this case, each
/// further block that can stay resident is worth the time of packing.
pub(crate) fn pack_if_tight(pager: &Pager, packing: &mut Packing) {
    let began = Instant::now();
    if packing.resumes.is_some_and(|from| began < from) || !evictable::is_tight(&pager.limit) {
        return;
    }
    let is_over_limit = evictable::is_over_limit(&pager.limit);
    pack(pager, if is_over_limit { OVER_LIMIT_GAIN_SHARE } else { GAIN_SHARE });
    pager.weigh();
    let took = began.elapsed().min(PACK_TIME_MAX);
    packing.resumes = Some(began + took * (PACK_PAUSE + 1));
}

/// Waits until the pager thread has made room or can't evict more blocks. The wait lasts at most
/// `ROOM_TIME_MAX`. It also ends if the pager thread completes no step for `ROOM_TIME`, or if a
/// fork closes the gate. A fork that closes the gate stops the pager thread, and waits for this
/// thread.
fn wait_for_room(pager: &Pager, blocks: usize) {
    let began = Instant::now();
    let (mut last_step, mut steps) = (began, pager.waker.steps.load(Acquire));
    while pager.limit.is_full(blocks) && !pager.limit.has_no_progress() && !GATE.is_closed() {
        wait_for(&pager.waker.steps, steps, ROOM_TICK);
        let (now, seen) = (Instant::now(), pager.waker.steps.load(Acquire));
        if seen != steps {
            (last_step, steps) = (now, seen);
        }
        if now - last_step > ROOM_TIME || now - began > ROOM_TIME_MAX {
            return;
        }
        pager.waker.wake();
    }
}

/// Packs the device if this frees 1/`share` of the device's pages. Returns whether pages were
/// freed. Returns `None` if another thread packs and this thread does not wait.
pub(crate) fn compact(pager: &Pager, waits: Waits, share: u64) -> Option<bool> {
    pack_by(pager, waits, |_| pack(pager, share))
}

/// Packs the device if this frees 1/`share` of the device's pages. Returns whether pages were
/// freed. The caller has locked `packing`.
fn pack(pager: &Pager, share: u64) -> bool {
    let used = pager.device.mm_stat().mem_used_total;
    let is_due = pager.device.freeable() as u64 > used / share;
    is_due && pager.device.shrink(STEP_BYTES.max((used / STEP_SHARE) as usize)) > 0
}

/// Packs a small device as a whole, because evictions leave many of its pages partly filled. The
/// device is packed only if, since the last such packing, at least as many bytes were evicted as
/// the device uses.
pub(crate) fn compact_whole(pager: &Pager) {
    pack_by(pager, Waits::ForOthers, |packing| {
        let used = pager.device.mm_stat().mem_used_total;
        let stored = pager.counters.evicted.load(Relaxed) * pager.sizes.block as u64;
        if used <= WHOLE_MAX && stored.saturating_sub(packing.whole_at) >= used {
            packing.whole_at = stored;
            pager.device.compact();
        }
    });
}

/// The behavior of a thread that wants to pack the device while another thread packs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The thread waits, unless this process is a copy, which may lack the other thread (zm-F3).
    ForOthers,
    /// The thread does not pack. The pager thread uses this value, because faults may wait for the
    /// pager thread.
    Never,
}

/// Calls `pack` inside the gate, with `packing` locked.
pub(crate) fn pack_by<T>(
    pager: &Pager,
    waits: Waits,
    pack: impl FnOnce(&mut Packing) -> T,
) -> Option<T> {
    inside(|| {
        let packing = match waits {
            Waits::ForOthers if !GATE.is_torn() => Some(pager.packing.lock()),
            _ => pager.packing.try_lock(),
        };
        let packed = packing.map(|mut packing| pack(&mut packing));
        pager.weigh();
        packed
    })
}
