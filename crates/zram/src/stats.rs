//! What a device tells of itself, as the kernel's device does.

use std::fmt;

/// Writes numbers in columns of eight, as the kernel does.
pub(crate) fn columns(f: &mut fmt::Formatter<'_>, numbers: &[u64]) -> fmt::Result {
    let columns: Vec<_> = numbers.iter().map(|number| format!("{number:8}")).collect();
    f.write_str(&columns.join(" "))
}

/// The kernel's `mm_stat`. [`Display`](fmt::Display) prints its nine columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmStat {
    /// Bytes stored, before compression; same-filled slots included.
    pub orig_data_size: u64,
    /// Bytes stored, after compression; slots stored uncompressed count whole, and slots of a
    /// block's object though they were overwritten or discarded since.
    pub compr_data_size: u64,
    /// Bytes of pool pages.
    pub mem_used_total: u64,
    /// Limit of pool pages in bytes; 0 is none.
    pub mem_limit: u64,
    /// The most bytes of pool pages there were.
    pub mem_used_max: u64,
    /// Same-filled slots.
    pub same_pages: u64,
    /// Pages that compaction freed.
    pub pages_compacted: u64,
    /// Slots that lie in memory uncompressed. Of a block's object all count, as in
    /// `compr_data_size`: also those that were overwritten or discarded since, which are no slots
    /// of [`block_state`](crate::Device::block_state) ([`OrderStat::dead_slots`]).
    pub huge_pages: u64,
    /// Slots ever stored uncompressed.
    pub huge_pages_since: u64,
}

impl fmt::Display for MmStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MmStat { orig_data_size, compr_data_size, mem_used_total, mem_limit, .. } = *self;
        let MmStat { mem_used_max, same_pages, pages_compacted, .. } = *self;
        let sizes = [orig_data_size, compr_data_size, mem_used_total, mem_limit, mem_used_max];
        let counts = [same_pages, pages_compacted, self.huge_pages, self.huge_pages_since];
        columns(f, &[&sizes[..], &counts].concat())
    }
}

/// The kernel's `io_stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStat {
    /// Slots that could not be read.
    pub failed_reads: u64,
    /// Slots that could not be written.
    pub failed_writes: u64,
    /// Slots that were discarded, empty ones too.
    pub notify_free: u64,
}

impl fmt::Display for IoStat {
    /// Four columns: the third, `invalid_io`, is always 0, as the kernel's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        columns(f, &[self.failed_reads, self.failed_writes, 0, self.notify_free])
    }
}

/// The kernel's `debug_stat`. Discards wait for a slot that is in use, so none is ever missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugStat;

impl fmt::Display for DebugStat {
    /// Returns the version of the format; then a column that is always 0, and `miss_free`, which
    /// is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version: 1\n{:8} {:8}", 0, 0)
    }
}

/// What a device has done with blocks of one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderStat {
    /// Bytes of a block: 4096 << order.
    pub block: u64,
    /// Blocks written whole and stored as one.
    pub written: u64,
    /// Blocks read whole.
    pub read: u64,
    /// Reads of a part of one.
    pub partial_reads: u64,
    /// Writes to a part of one that was stored.
    pub partial_writes: u64,
    /// Blocks written whole that were stored as slots, as there was no room for them as one.
    pub splits: u64,
    /// Blocks stored anew without the slots that were overwritten or discarded.
    pub rewrites: u64,
    /// Slots of blocks that are stored though they were overwritten or discarded; now.
    pub dead_slots: u64,
}

impl fmt::Display for OrderStat {
    /// Returns a column each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OrderStat { block, written, read, partial_reads, partial_writes, .. } = *self;
        let OrderStat { splits, rewrites, dead_slots, .. } = *self;
        let others = [partial_reads, partial_writes, splits, rewrites, dead_slots];
        columns(f, &[&[block, written, read][..], &others].concat())
    }
}

/// What became of bytes that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Slots that were stored raw, as compression did not make them smaller.
    pub raw: u64,
}
