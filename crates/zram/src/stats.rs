//! Statistics of a device, in the kernel's formats.

use std::fmt;

/// Writes numbers in columns that are eight characters wide, as the kernel does.
pub(crate) fn columns(f: &mut fmt::Formatter<'_>, numbers: &[u64]) -> fmt::Result {
    let columns: Vec<_> = numbers.iter().map(|number| format!("{number:8}")).collect();
    f.write_str(&columns.join(" "))
}

/// The kernel's `mm_stat`. [`Display`](fmt::Display) prints its nine columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmStat {
    /// The size of the stored data before compression in bytes, including same-filled slots.
    pub orig_data_size: u64,
    /// The size of the stored data after compression in bytes, including slots stored raw and dead
    /// members of blocks' objects.
    pub compr_data_size: u64,
    /// The size of the pool's pages in bytes.
    pub mem_used_total: u64,
    /// The limit of the pool's pages in bytes; 0 means no limit.
    pub mem_limit: u64,
    /// The maximum that `mem_used_total` has reached.
    pub mem_used_max: u64,
    /// The number of same-filled slots.
    pub same_pages: u64,
    /// The number of pages that compaction freed.
    pub pages_compacted: u64,
    /// The number of slots stored raw in memory, including the dead members of blocks' objects
    /// ([`OrderStat::dead_slots`]). [`block_state`](crate::Device::block_state) does not list dead
    /// members.
    pub huge_pages: u64,
    /// The number of slots that were stored raw since the device was created, counted at each
    /// write.
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
    /// The number of failed read requests.
    pub failed_reads: u64,
    /// The number of failed write and discard requests.
    pub failed_writes: u64,
    /// The number of slots that were discarded, including empty ones.
    pub notify_free: u64,
}

impl fmt::Display for IoStat {
    /// Writes four columns. The third column, `invalid_io`, is always 0, as in the kernel.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        columns(f, &[self.failed_reads, self.failed_writes, 0, self.notify_free])
    }
}

/// The kernel's `debug_stat`. A discard waits for a slot that is in use, so no discard is ever
/// missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugStat;

impl fmt::Display for DebugStat {
    /// Writes the version of the format, then two columns that are always 0: an unused column, and
    /// `miss_free`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version: 1\n{:8} {:8}", 0, 0)
    }
}

/// The numbers of a device's operations on blocks of one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderStat {
    /// The size of a block in bytes: 4096 << order.
    pub block: u64,
    /// The number of blocks that were written whole and stored as one object.
    pub written: u64,
    /// The number of blocks that were read whole.
    pub read: u64,
    /// The number of reads of parts of blocks.
    pub partial_reads: u64,
    /// The number of writes to parts of stored blocks.
    pub partial_writes: u64,
    /// The number of blocks that were written whole but stored slot by slot, because memory for one
    /// object was refused.
    pub splits: u64,
    /// The number of times that a block was rewritten to remove its dead members.
    pub rewrites: u64,
    /// The current number of dead members: slots in blocks' objects that were overwritten or
    /// discarded.
    pub dead_slots: u64,
}

impl fmt::Display for OrderStat {
    /// Writes a column for each field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OrderStat { block, written, read, partial_reads, partial_writes, .. } = *self;
        let OrderStat { splits, rewrites, dead_slots, .. } = *self;
        let others = [partial_reads, partial_writes, splits, rewrites, dead_slots];
        columns(f, &[&[block, written, read][..], &others].concat())
    }
}

/// How the bytes of a write were stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The number of slots that were stored raw because compression would save too little memory.
    pub raw: u64,
}
