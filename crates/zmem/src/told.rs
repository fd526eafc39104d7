//! The statistics that a pager reports.

use crate::pager::Pager;
use crate::stats::Stats;
use crate::times::milliseconds;
use crate::working_set::Window;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) fn stats(pager: &Pager) -> Stats {
    let get = |counter: &AtomicU64| counter.load(Relaxed);
    let (counters, mm) = (&pager.counters, pager.device.mm_stat());
    pager.limit.peak.note(pager.limit.process_held(), pager.limit.process_resident());
    pager.stored_most.note(mm.orig_data_size, mm.compr_data_size);
    let described = pager.backend.describe();
    let (backend, backend_reason) = described.split_once(':').unwrap_or((described, ""));
    Stats {
        backend,
        backend_reason: backend_reason.trim_start(),
        block: pager.sizes.block,
        limit: pager.limit.get(),
        held: pager.limit.process_held(),
        held_max: pager.limit.peak.held(),
        resident: pager.limit.process_resident(),
        resident_max: pager.limit.peak.resident(),
        device: pager.device_bytes(),
        pool: mm.mem_used_total,
        stored: mm.orig_data_size,
        compressed: mm.compr_data_size,
        stored_max: pager.stored_most.get().0,
        compressed_max: pager.stored_most.get().1,
        faults: counters.times.histogram(),
        first_touches: get(&counters.first_touches),
        kept: get(&counters.kept),
        filled: get(&counters.filled),
        ahead: get(&counters.ahead),
        in_place: get(&counters.in_place),
        refaults: get(&counters.refaults),
        waits: get(&counters.waits),
        marked: get(&counters.marked),
        evicted: get(&counters.evicted),
        aside: get(&counters.aside),
        zeros: get(&counters.zeros),
        stolen: get(&counters.stolen),
        refused: get(&counters.refused),
        incompressible: get(&counters.incompressible),
        orders: pager.device.order_stats(),
    }
}

/// Returns the bytes by which the limit is too small: see `working_set`. Returns `None` until
/// the current window ends.
pub(crate) fn lacks(pager: &Pager) -> Option<u64> {
    let (mut window, now) = (pager.watched.try_lock()?, milliseconds());
    if !window.is_over(now) {
        return None;
    }
    let counters = &pager.counters;
    let next = Window {
        began: now,
        in_faults: counters.times.histogram().total(),
        evicted: counters.evicted.load(Relaxed),
        round: pager.round.load(Relaxed),
        distances: std::array::from_fn(|nth| counters.distances[nth].load(Relaxed)),
        slow: 0,
    };
    let lacking = window.end(next, pager.sizes.block)?;
    let mm = pager.device.mm_stat();
    // With a larger limit, all stored blocks could be resident, and would use no memory of the
    // device.
    let lacking = lacking.min(mm.orig_data_size);
    let share = mm.compr_data_size as f64 / mm.orig_data_size.max(1) as f64;
    Some(lacking - (lacking as f64 * share) as u64)
}
