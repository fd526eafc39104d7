//! The statistics that a region reports.

use crate::counters::{Histogram, Window, milliseconds};
use crate::limit::evictable;
use crate::pager::Pager;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory that a region holds, and counts of events. Counts and maxima cover the time since the
/// creation of the region, or in a child since the fork.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The backend that handles accesses to absent blocks: `signal`, `signal-mappings`,
    /// `signal-remap`, `userfaultfd`, `userfaultfd-sigbus`, or `none` in a child.
    pub backend: &'static str,
    /// A description of the backend, and the reason why it was chosen. Later versions may change
    /// the text.
    pub backend_reason: &'static str,
    /// The size of a block in bytes. A block is evicted as a whole. The size is that of the
    /// requested order, or a multiple of it if smaller blocks could need too many mappings.
    pub block: usize,
    /// The limit of `held` in bytes, if a limit is set.
    pub limit: Option<u64>,
    /// Bytes that the region holds: resident blocks, the device, tables, page tables and buffers.
    pub held: u64,
    /// The largest value of `held` so far, in bytes.
    pub held_max: u64,
    /// Bytes of resident blocks.
    pub resident: u64,
    /// The largest value of `resident` so far, in bytes.
    pub resident_max: u64,
    /// Bytes that the device uses, including all its tables and streams.
    pub device: u64,
    /// Bytes of the device's pages that hold compressed blocks.
    pub pool: u64,
    /// Bytes of all blocks on the device, before compression.
    pub stored: u64,
    /// Bytes of all blocks on the device, after compression.
    pub compressed: u64,
    /// The value of `stored` in bytes when `compressed_max` was measured, rounded up to a multiple
    /// of 1 KiB.
    pub stored_max: u64,
    /// The largest measured value of `compressed` in bytes, rounded up to a multiple of 1 KiB.
    pub compressed_max: u64,
    /// The durations of faults, without the time that the kernel takes to deliver a fault.
    pub faults: Histogram,
    /// Blocks that were accessed while they were untouched.
    pub first_touches: u64,
    /// Blocks that were accessed in probation. Such an access needs no decompression.
    pub kept: u64,
    /// Blocks that were filled from the device.
    pub filled: u64,
    /// Filled blocks that were not accessed, but were filled together with an accessed block.
    pub ahead: u64,
    /// Filled blocks that were decompressed at their addresses, because no other thread ran.
    pub in_place: u64,
    /// Filled blocks that were evicted only a short time before the fill.
    pub refaults: u64,
    /// The number of times that a thread waited for a block that another thread was changing.
    pub waits: u64,
    /// Blocks that were put in probation.
    pub marked: u64,
    /// Blocks that were evicted.
    pub evicted: u64,
    /// Evicted blocks that the compressor thread stored.
    pub aside: u64,
    /// Evicted blocks that contained only zeros, which are not stored.
    pub zeros: u64,
    /// Blocks that were accessed while they were being stored.
    pub stolen: u64,
    /// Blocks that stayed resident because the device refused them or the kernel did not free their
    /// pages.
    pub refused: u64,
    /// Blocks that stayed resident because compression did not make them smaller.
    pub incompressible: u64,
    /// The statistics of the device for blocks of each order.
    pub orders: Vec<zram::OrderStat>,
}

/// Returns the statistics of a region.
pub(crate) fn stats(pager: &Pager) -> Stats {
    let get = |counter: &AtomicU64| counter.load(Relaxed);
    let (counters, mm) = (&pager.counters, pager.device.mm_stat());
    let (limit, stored_most) = (&pager.limit, &pager.stored_most);
    let held = evictable::process_held(limit);
    let resident = evictable::process_resident(limit);
    limit.peak.note(held, resident);
    stored_most.note(mm.orig_data_size, mm.compr_data_size);
    let described = pager.backend.describe();
    let (backend, backend_reason) = described.split_once(':').unwrap_or((described, ""));
    Stats {
        backend,
        backend_reason: backend_reason.trim_start(),
        block: pager.sizes.block,
        limit: limit.get(),
        held,
        held_max: get(&limit.peak.held),
        resident,
        resident_max: get(&limit.peak.resident),
        device: pager.device_bytes(),
        pool: mm.mem_used_total,
        stored: mm.orig_data_size,
        compressed: mm.compr_data_size,
        stored_max: stored_most.get().0,
        compressed_max: stored_most.get().1,
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

/// Ends the current `Window`, and returns the number of bytes by which the limit is too small.
/// Returns `None` if the time window has not ended yet, or the limit is large enough.
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
    // Blocks that become resident under a larger limit free memory of the device. At most all
    // stored blocks can become resident.
    let lacking = lacking.min(mm.orig_data_size);
    let share = mm.compr_data_size as f64 / mm.orig_data_size.max(1) as f64;
    Some(lacking - (lacking as f64 * share) as u64)
}
