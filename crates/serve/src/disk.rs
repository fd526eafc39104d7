//! What is served: a disk of bytes, which a compressed device is.

use rustix::io::Errno;
use std::ops::{Deref, Range};
use zram::{Device, SLOT_BYTES};

/// A run of bytes that are all stored, or all not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, a multiple of 4096 but at the end of what was asked for.
    pub len: u64,
    /// Whether anything is stored there; if not, it reads as zeros.
    pub is_stored: bool,
}

/// A disk. Any thread may call any function; what requests that overlap leave behind is either's,
/// block by block.
pub trait Disk: Send + Sync {
    /// Returns the bytes of the disk.
    fn size(&self) -> u64;
    /// Returns the bytes of a block: requests of whole blocks cost least.
    fn block(&self) -> u32;
    /// Returns whether a request for `len` bytes at `offset` may take long, as what it needs lies
    /// elsewhere; a hint, that is cheap.
    fn may_wait(&self, offset: u64, len: u64) -> bool;
    /// Fills `buf` with what lies at `offset`.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Errno>;
    /// Stores `bytes` at `offset`. After an error each block has its old contents or its new.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno>;
    /// Frees the whole blocks within.
    fn discard(&self, offset: u64, len: u64) -> Result<(), Errno>;
    /// Makes zeros of all, and frees the whole blocks within.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Errno>;
    /// Has everything be stored that was written before.
    fn flush(&self) -> Result<(), Errno>;
    /// Tells `each` the extents of a range that is not empty, one at least, from its start on and
    /// without gaps, until it takes no more. They end where the range does, or before.
    fn extents(&self, range: Range<u64>, each: &mut dyn FnMut(Extent) -> bool);
}

/// Stored blocks looked at for one call of `extents`: a gigabyte's.
const LOOKED_AT: usize = 1 << 18;

/// A device, however it is held.
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

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.deref().write_zeroes(offset, len).map_err(errno)
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
            if nth == LOOKED_AT || !(map.add(slot, false) && map.add(slot + 1, true)) {
                return map.report_last();
            }
        }
        if map.add(slots.end, false) {
            map.report_last();
        }
    }
}

/// Extents as they are found: each is told when the next one begins, so none is kept.
struct ExtentMap<'e> {
    range: Range<u64>,
    each: &'e mut dyn FnMut(Extent) -> bool,
    /// Slots of the last one, which is not told yet, and what they are.
    last: Range<u64>,
    is_stored: bool,
}

impl<'e> ExtentMap<'e> {
    /// Of bytes of which the first lies in slot `first`.
    fn new(range: Range<u64>, first: u64, each: &'e mut dyn FnMut(Extent) -> bool) -> Self {
        ExtentMap { range, each, last: first..first, is_stored: false }
    }

    /// Goes on to slot `end`, and returns whether more are wanted.
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

    /// Tells the last one in bytes, as far as it lies in the range, and returns whether more are
    /// wanted.
    fn report(&mut self) -> bool {
        let block = SLOT_BYTES as u64;
        let start = (self.last.start * block).max(self.range.start);
        let end = (self.last.end * block).min(self.range.end);
        self.last.start = self.last.end;
        (self.each)(Extent { len: end - start, is_stored: self.is_stored })
    }

    /// Tells the last one, if it was not.
    fn report_last(mut self) {
        if !self.last.is_empty() {
            self.report();
        }
    }
}

/// Returns what a block device would answer with, but that memory which ran out is space that did.
fn errno(error: zram::Error) -> Errno {
    match error {
        zram::Error::OutOfMemory { .. } => Errno::NOSPC,
        _ => Errno::from_raw_os_error(error.errno()),
    }
}
