//! Reads and writes the contents of managed memory, regardless of its protection.
//!
//! # Safety
//! See [`memory`](super).
#![allow(unsafe_code)]

use super::Managed;
use crate::process_memory;
use crate::threads::WorldStopped;
use rustix::io::Errno;
use std::ops::Range;

impl Managed {
    /// Copies the bytes from offset `at` on to `buf`, regardless of their protection. The caller
    /// owns the blocks, or is evicting them.
    pub(crate) fn read(&self, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + buf.len()));
        process_memory::read(start.addr() as u64, buf)
    }

    /// Copies the bytes from offset `at` on to `buf`. Each page that is present is readable. The
    /// caller is evicting the blocks.
    ///
    /// # Errors
    /// `Errno::FAULT` if a page is missing; any other error means that the kernel refuses the call.
    pub(crate) fn read_protected(&self, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + buf.len()));
        match process_memory::read(start.addr() as u64, buf) {
            Ok(()) => Ok(()),
            Err(_) => process_memory::read_readable(start.addr() as u64, buf),
        }
    }

    /// Copies `bytes` to the offset `at`, regardless of the protection. Other threads can't access
    /// the blocks, because the caller owns them.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + bytes.len()));
        // SAFETY: the range is within this memory. The owner of its blocks writes the data of these
        // blocks, and any other thread that accesses the blocks sees exactly these data (zm-S2).
        unsafe { process_memory::write(start.addr() as u64, bytes) }
    }

    /// Zeroes a range that is readable and writable. The caller owns the blocks.
    pub(crate) fn clear(&self, range: Range<usize>) {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory. The caller guarantees that the range is open,
        // and it stays open, because the caller owns the blocks (zm-S1). The program requested
        // zeros, and guarantees that the bytes may change.
        unsafe { start.cast::<u8>().write_bytes(0, bytes) };
    }

    /// Calls `work` with the bytes of a range that is readable and writable. The caller owns the
    /// blocks.
    pub(crate) fn with_bytes<T>(
        &self,
        range: Range<usize>,
        _alone: &WorldStopped,
        work: impl FnOnce(&mut [u8]) -> T,
    ) -> T {
        let (start, len) = self.place(&range);
        // SAFETY: the range is within this memory and mapped. The caller guarantees that the range
        // is open, and it stays open, because the caller owns the blocks (zm-S1). `_alone` proves
        // that no other thread accesses the range. This thread runs only code of this crate until
        // the data are in place, so the program has not read the bytes yet.
        work(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
    }
}
