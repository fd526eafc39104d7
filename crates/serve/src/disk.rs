//! The disk that is served: an array of bytes, such as a compressed device.

use crate::policy::EXTENT_ENTRIES_MAX;
use rustix::io::Errno;
use std::ops::{Deref, Range};
use zram::{Device, SLOT_BYTES};

/// A range of bytes that are either all stored or all in a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The length in bytes: a multiple of 4096, except at the end of the requested range.
    pub len: u64,
    /// Whether the bytes are stored. If not, the extent is a hole, which reads as zeros.
    pub is_stored: bool,
}

/// A disk. Any thread can call any method. If requests overlap, each block then holds the data of
/// one of these requests.
pub trait Disk: Send + Sync {
    /// Returns the size of the disk in bytes.
    fn size(&self) -> u64;
    /// Returns the block size in bytes. Requests for whole blocks take the least time per byte.
    fn block(&self) -> u32;
    /// Returns whether a request for `len` bytes at `offset` may take long because the request
    /// needs the backing store. The result is a hint that is cheap to compute.
    fn may_wait(&self, offset: u64, len: u64) -> bool;
    /// Fills `buf` with the bytes at `offset`.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Errno>;
    /// Stores `bytes` at `offset`. After an error, each block holds either its old or its new data.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno>;
    /// Makes the range read as zeros, and frees the blocks that lie completely in the range.
    fn discard(&self, offset: u64, len: u64) -> Result<(), Errno>;
    /// Makes all earlier writes durable.
    fn flush(&self) -> Result<(), Errno>;
    /// Calls `each` with the extents of `range`, in order and without gaps, until `each` returns
    /// false. A nonempty range has at least one extent. The last extent can end before the end of
    /// the range.
    fn extents(&self, range: Range<u64>, each: &mut dyn FnMut(Extent) -> bool);
}

/// Any pointer to a device is a disk.
impl<D: Deref<Target = Device> + Send + Sync> Disk for D {
    fn size(&self) -> u64 {
        self.disksize()
    }

    fn block(&self) -> u32 {
        self.deref().block() as u32
    }

    fn may_wait(&self, offset: u64, len: u64) -> bool {
        self.deref().may_wait(offset, len)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Errno> {
        self.deref().read(offset, buf).map_err(errno)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.deref().write(offset, bytes).map_err(errno)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.deref().discard(offset, len).map_err(errno)
    }

    fn flush(&self) -> Result<(), Errno> {
        self.deref().flush().map_err(errno)
    }

    fn extents(&self, range: Range<u64>, each: &mut dyn FnMut(Extent) -> bool) {
        let block = SLOT_BYTES as u64;
        let slots = range.start / block..range.end.div_ceil(block);
        let mut map = ExtentMap::new(range, slots.start, each);
        let stored = self.block_state_from(slots.start).map(|state| state.index);
        for (nth, slot) in stored.take_while(|slot| *slot < slots.end).enumerate() {
            if nth == EXTENT_ENTRIES_MAX || !(map.add(slot, false) && map.add(slot + 1, true)) {
                return map.report_last();
            }
        }
        if map.add(slots.end, false) {
            map.report_last();
        }
    }
}

/// Merges adjacent extents. An extent is reported when the next extent begins, so only the last
/// extent is stored.
struct ExtentMap<'e> {
    range: Range<u64>,
    each: &'e mut dyn FnMut(Extent) -> bool,
    /// The slots of the last extent, which is not reported yet.
    last: Range<u64>,
    is_stored: bool,
}

impl<'e> ExtentMap<'e> {
    /// Creates a map that begins at slot `first`, which contains the first byte of `range`.
    fn new(range: Range<u64>, first: u64, each: &'e mut dyn FnMut(Extent) -> bool) -> Self {
        ExtentMap { range, each, last: first..first, is_stored: false }
    }

    /// Adds the slots up to slot `end`. Returns whether the caller needs more extents.
    fn add(&mut self, end: u64, is_stored: bool) -> bool {
        if end == self.last.end {
            return true;
        }
        if !self.last.is_empty() && self.is_stored != is_stored && !self.report() {
            return false;
        }
        (self.last.end, self.is_stored) = (end, is_stored);
        true
    }

    /// Reports the part of the last extent that lies in the range. Returns whether the caller needs
    /// more extents.
    fn report(&mut self) -> bool {
        let block = SLOT_BYTES as u64;
        let start = (self.last.start * block).max(self.range.start);
        let end = (self.last.end * block).min(self.range.end);
        self.last.start = self.last.end;
        (self.each)(Extent { len: end - start, is_stored: self.is_stored })
    }

    /// Reports the last extent, if it was not reported yet.
    fn report_last(mut self) {
        if !self.last.is_empty() {
            self.report();
        }
    }
}

/// Returns the errno that a block device would return for `error`: ENOSPC if memory is used up.
fn errno(error: zram::Error) -> Errno {
    match error {
        zram::Error::OutOfMemory { .. } => Errno::NOSPC,
        _ => Errno::from_raw_os_error(error.errno()),
    }
}
