//! What is served: a disk of bytes, which a compressed device is.

use rustix::io::Errno;
use std::ops::{Deref, Range};
use zram::{BLOCK, Device};

/// A run of bytes that are all stored, or all not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, a multiple of 4096 but at the end of what was asked for.
    pub len: u64,
    /// Whether anything is stored there; if not, it reads as zeros.
    pub is_stored: bool,
}

/// A disk. Any thread may call any function; what requests that overlap leave behind is either's, block by block.
pub trait Disk: Send + Sync {
    /// Bytes of the disk.
    fn size(&self) -> u64;
    /// Bytes of a block: requests of whole blocks cost least.
    fn block(&self) -> u32;
    /// Whether a request for `len` bytes at `offset` may take long, as what it needs lies elsewhere; a hint, that is cheap.
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
    /// The extents of a range that is not empty, `count` at most, from its start on and without gaps; at least one. They
    /// end where the range does, or before.
    fn extents(&self, range: Range<u64>, count: usize) -> Vec<Extent>;
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

    fn extents(&self, range: Range<u64>, count: usize) -> Vec<Extent> {
        let block = BLOCK as u64;
        let slots = range.start / block..range.end.div_ceil(block);
        let mut map = Map { extents: Vec::new(), next: slots.start, count };
        let stored = self.block_state_from(slots.start).map(|state| state.index);
        for (nth, slot) in stored.take_while(|slot| *slot < slots.end).enumerate() {
            if nth == LOOKED_AT || !(map.add(slot, false) && map.add(slot + 1, true)) {
                return map.cut(range);
            }
        }
        map.add(slots.end, false);
        map.cut(range)
    }
}

/// Extents in slots, as they are found.
struct Map {
    extents: Vec<Extent>,
    /// The slot behind them.
    next: u64,
    count: usize,
}

impl Map {
    /// Goes on to slot `end`; whether there was room to.
    fn add(&mut self, end: u64, is_stored: bool) -> bool {
        let len = end - self.next;
        // Fewer are an answer, too.
        let has_room = self.extents.len() < self.count && self.extents.try_reserve(1).is_ok();
        match self.extents.last_mut() {
            _ if len == 0 => return true,
            Some(last) if last.is_stored == is_stored => last.len += len,
            _ if !has_room => return false,
            _ => self.extents.push(Extent { len, is_stored }),
        }
        self.next = end;
        true
    }

    /// The extents in bytes, within `range`, which begins in their first slot.
    fn cut(mut self, range: Range<u64>) -> Vec<Extent> {
        let block = BLOCK as u64;
        let mut at = range.start / block * block;
        for extent in &mut self.extents {
            let end = at + extent.len * block;
            extent.len = end.min(range.end) - at.max(range.start);
            at = end;
        }
        self.extents
    }
}

/// What a block device would answer with, but that memory which ran out is space that did.
fn errno(error: zram::Error) -> Errno {
    match error {
        zram::Error::OutOfMemory { .. } => Errno::NOSPC,
        _ => Errno::from_raw_os_error(error.errno()),
    }
}
