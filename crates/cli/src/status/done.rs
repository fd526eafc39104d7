//! The activity of a device.

use rustix::param::page_size;
use serde::{Deserialize, Serialize};
use zram::{Device, SLOT_BYTES};

/// The counters of the device's activity, which never decrease, and the size of the data in the
/// backing store.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Done {
    pub(crate) failed_reads: u64,
    pub(crate) failed_writes: u64,
    pub(crate) notify_free: u64,
    pub(crate) huge_pages_since: u64,
    pub(crate) compaction_moved_bytes: u64,
    pub(crate) compaction_freed_bytes: u64,
    pub(crate) compaction_nanoseconds: u64,
    pub(crate) backing_bytes: u64,
    pub(crate) backing_read_bytes: u64,
    pub(crate) backing_written_bytes: u64,
}

impl Done {
    pub(super) fn of(device: &Device) -> Self {
        let (io, backing, compaction) =
            (device.io_stat(), device.bd_stat(), device.compaction_stat());
        let slots = |count: u64| count * SLOT_BYTES as u64;
        Done {
            failed_reads: io.failed_reads,
            failed_writes: io.failed_writes,
            notify_free: io.notify_free,
            huge_pages_since: device.mm_stat().huge_pages_since,
            compaction_moved_bytes: compaction.moved_bytes,
            compaction_freed_bytes: compaction.freed_pages * page_size() as u64,
            compaction_nanoseconds: compaction.cpu.as_nanos() as u64,
            backing_bytes: slots(backing.bd_count),
            backing_read_bytes: slots(backing.bd_reads),
            backing_written_bytes: slots(backing.bd_writes),
        }
    }
}
