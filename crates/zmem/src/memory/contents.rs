//! Contents of managed memory, read and written whatever its protection is.
//!
//! # Safety
//! See [`memory`](super).
#![allow(unsafe_code)]

use super::Managed;
use crate::process_memory;
use crate::threads::Alone;
use rustix::io::Errno;
use std::ops::Range;

impl Managed {
    /// Copies the bytes from `at` on, whatever their protection. The caller owns the blocks, or is
    /// evicting them.
    pub(crate) fn read(&self, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + buf.len()));
        process_memory::read(start.addr() as u64, buf)
    }

    /// Copies the bytes from `at` on, of which each present page is readable. The caller is
    /// evicting the blocks.
    ///
    /// # Errors
    /// `Errno::FAULT` if a page is missing; any other means that the system refuses it.
    pub(crate) fn read_protected(&self, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + buf.len()));
        match process_memory::read(start.addr() as u64, buf) {
            Ok(()) => Ok(()),
            Err(_) => process_memory::read_readable(start.addr() as u64, buf),
        }
    }

    /// Copies bytes to `at`, whatever the protection there: other threads can't touch it. The
    /// caller owns the blocks.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + bytes.len()));
        // SAFETY: the range lies within; the owner of its blocks puts their own data there, and any
        // other thread that looks finds just these (zm-S2).
        unsafe { process_memory::write(start.addr() as u64, bytes) }
    }

    /// Zeroes a range that is readable and writable. The caller owns the blocks.
    pub(crate) fn clear(&self, range: Range<usize>) {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range lies within, and is open, as the caller says, and stays so, as it owns
        // the blocks (zm-S1). The program asked for zeros and vouched that the bytes may change.
        unsafe { start.cast::<u8>().write_bytes(0, bytes) };
    }

    /// Calls `work` to fill a range that is readable and writable. The caller owns the blocks.
    pub(crate) fn with_bytes<T>(
        &self,
        range: Range<usize>,
        _alone: &Alone,
        work: impl FnOnce(&mut [u8]) -> T,
    ) -> T {
        let (start, len) = self.place(&range);
        // SAFETY: the range lies within, and is mapped; it is open, as the caller says, and stays
        // so, as it owns the blocks (zm-S1). No other thread looks, as `_alone` says, and this one
        // is in our code until the data are there, so it has not seen the bytes yet.
        work(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
    }
}
