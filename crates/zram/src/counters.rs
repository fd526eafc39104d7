//! The counters of a device. Each stream has a shard of the counters, and a read adds up all
//! shards.

use crate::policy::CHANGED_MIN;
use crate::stats::{IoStat, MmStat, OrderStat};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// The contribution of one entry to the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// 1 if the entry belongs to a slot and contains data, else 0. Live members of blocks are
    /// counted separately.
    pub(crate) slots: i64,
    /// The size of the entry's data in memory after compression, in bytes.
    pub(crate) bytes: i64,
    /// 1 if the entry belongs to a same-filled slot, else 0.
    pub(crate) same: i64,
    /// The number of slots that the entry stores raw.
    pub(crate) raw: i64,
    /// The number of live and dead members of the block's object.
    pub(crate) in_objects: i64,
}

/// A counter to which only one thread at a time adds. Any thread is allowed to read the counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicI64);

impl Counter {
    /// Adds `more` without an atomic read-modify-write.
    pub(crate) fn add(&self, more: i64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// The counters of one stream. Only the request that holds the stream changes these counters. Only
/// the sums over all shards are meaningful.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Shard {
    slots: Counter,
    bytes: Counter,
    freed: Counter,
    same: Counter,
    raw: Counter,
    raw_ever: Counter,
    /// The number of members of blocks' objects, and the number of the live members.
    in_objects: Counter,
    in_blocks: Counter,
    pub(crate) slot_io: OrderCounters,
    pub(crate) block_io: OrderCounters,
    pub(crate) failed_reads: Counter,
    pub(crate) failed_writes: Counter,
    pub(crate) notify_free: Counter,
}

/// The counters of operations on blocks of one order, see [`OrderStat`].
#[derive(Debug, Default)]
pub(crate) struct OrderCounters {
    pub(crate) written: Counter,
    pub(crate) read: Counter,
    pub(crate) partial_reads: Counter,
    pub(crate) partial_writes: Counter,
    pub(crate) splits: Counter,
    pub(crate) rewrites: Counter,
}

impl OrderCounters {
    pub(crate) fn count_read(&self, is_whole: bool) {
        if is_whole { &self.read } else { &self.partial_reads }.add(1);
    }

    pub(crate) fn count_write(&self, is_whole: bool) {
        if is_whole { &self.written } else { &self.partial_writes }.add(1);
    }
}

impl Shard {
    /// Counts the change of an entry from `old` to `new`.
    #[inline]
    pub(crate) fn changed(&self, old: Weight, new: Weight) {
        self.slots.add(new.slots - old.slots);
        self.bytes.add(new.bytes - old.bytes);
        self.freed.add(if old.bytes > 0 { old.bytes.max(CHANGED_MIN) } else { 0 });
        self.same.add(new.same - old.same);
        self.raw.add(new.raw - old.raw);
        self.raw_ever.add(new.raw);
        self.in_objects.add(new.in_objects - old.in_objects);
    }

    /// Returns how often requests with this stream have stored a slot raw so far.
    pub(crate) fn raw_ever(&self) -> u64 {
        self.raw_ever.get() as u64
    }

    /// Counts a change of the number of a block's live members.
    pub(crate) fn changed_live(&self, [before, after]: [u32; 2]) {
        let more = i64::from(after) - i64::from(before);
        self.slots.add(more);
        self.in_blocks.add(more);
    }
}

#[derive(Debug)]
pub(crate) struct Counters(Box<[Shard]>);

impl Counters {
    pub(crate) fn new(shards: usize) -> Self {
        Counters((0..shards.max(1)).map(|_| Shard::default()).collect())
    }

    pub(crate) fn shard(&self, nth: usize) -> &Shard {
        &self.0[nth % self.0.len()]
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Returns the number of members of blocks' objects, and the number of dead members.
    pub(crate) fn in_objects(&self) -> (u64, u64) {
        let all = self.sum(|shard| &shard.in_objects);
        (all, all.saturating_sub(self.sum(|shard| &shard.in_blocks)))
    }

    /// Returns the statistics of blocks of `block` bytes.
    pub(crate) fn order_stat(&self, block: usize, of: fn(&Shard) -> &OrderCounters) -> OrderStat {
        let sum = |counter: fn(&OrderCounters) -> &Counter| {
            self.0.iter().map(|shard| counter(of(shard)).get()).sum::<i64>().max(0) as u64
        };
        OrderStat {
            block: block as u64,
            written: sum(|of| &of.written),
            read: sum(|of| &of.read),
            partial_reads: sum(|of| &of.partial_reads),
            partial_writes: sum(|of| &of.partial_writes),
            splits: sum(|of| &of.splits),
            rewrites: sum(|of| &of.rewrites),
            dead_slots: 0,
        }
    }

    /// Returns a sum over all shards. The sum may be inexact while the shards change, but is never
    /// negative.
    fn sum(&self, of: fn(&Shard) -> &Counter) -> u64 {
        self.0.iter().map(|shard| of(shard).get()).sum::<i64>().max(0) as u64
    }

    /// Returns the columns of `mm_stat` that this crate counts.
    pub(crate) fn mm_stat(&self) -> MmStat {
        MmStat {
            orig_data_size: self.sum(|shard| &shard.slots) * crate::SLOT_BYTES as u64,
            compr_data_size: self.sum(|shard| &shard.bytes),
            same_pages: self.sum(|shard| &shard.same),
            huge_pages: self.sum(|shard| &shard.raw),
            huge_pages_since: self.sum(|shard| &shard.raw_ever),
            ..MmStat::default()
        }
    }

    /// Returns the value of [`Device::changed_bytes`](crate::Device::changed_bytes). The argument
    /// contains the statistics of compaction.
    pub(crate) fn changed(&self, of: &zsmalloc::CompactionStat) -> u64 {
        self.sum(|shard| &shard.freed) + of.moved_bytes.max(of.moved_objects * CHANGED_MIN as u64)
    }

    pub(crate) fn io_stat(&self) -> IoStat {
        IoStat {
            failed_reads: self.sum(|shard| &shard.failed_reads),
            failed_writes: self.sum(|shard| &shard.failed_writes),
            notify_free: self.sum(|shard| &shard.notify_free),
        }
    }
}
