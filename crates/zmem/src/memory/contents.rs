//! Reads and writes the contents of managed memory, regardless of its protection: through
//! /proc/thread-self/mem, which ignores it.
//!
//! The descriptor of that file refers to the memory of the process that opened it. A child that
//! used the inherited descriptor would write to its parent's memory, so the child opens the file
//! again.
//!
//! # Safety
//! See [`memory`](super).
#![allow(unsafe_code)]

use super::Managed;
use crate::kept_file::MEMORY;
use crate::threads::WorldStopped;
use libc::iovec;
use rustix::io::{Errno, pread, pwrite};
use std::ops::Range;

impl Managed {
    /// Copies the bytes from offset `at` on to `buf`, regardless of their protection. The caller
    /// owns the blocks, or is evicting them.
    pub(crate) fn read(&self, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + buf.len()));
        read(start.addr() as u64, buf)
    }

    /// Copies the bytes from offset `at` on to `buf`. Each page that is present is readable. The
    /// caller is evicting the blocks.
    ///
    /// # Errors
    /// `Errno::FAULT` if a page is missing; any other error means that the kernel refuses the call.
    pub(crate) fn read_protected(&self, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + buf.len()));
        match read(start.addr() as u64, buf) {
            Ok(()) => Ok(()),
            Err(_) => read_readable(start.addr() as u64, buf),
        }
    }

    /// Copies `bytes` to the offset `at`, regardless of the protection. Other threads can't access
    /// the blocks, because the caller owns them.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + bytes.len()));
        // SAFETY: the range is within this memory. The owner of its blocks writes the data of these
        // blocks, and any other thread that accesses the blocks sees exactly these data (zm-S2).
        unsafe { write(start.addr() as u64, bytes) }
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
        _stopped: &WorldStopped,
        work: impl FnOnce(&mut [u8]) -> T,
    ) -> T {
        let (start, len) = self.place(&range);
        // SAFETY: the range is within this memory and mapped. The caller guarantees that the range
        // is open, and it stays open, because the caller owns the blocks (zm-S1). `_stopped` proves
        // that no other thread accesses the range. This thread runs only code of this crate until
        // the data are in place, so the program has not read the bytes yet.
        work(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
    }
}

/// Reads the bytes at `address`, regardless of their protection.
fn read(address: u64, buf: &mut [u8]) -> Result<(), Errno> {
    MEMORY.with(|file| {
        let mut done = 0;
        while done < buf.len() {
            match pread(file, &mut buf[done..], address + done as u64) {
                // This file has no end, so the descriptor now refers to another file.
                Ok(0) => return Err(Errno::BADF),
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// If the bytes at `address` are readable, reads them without the file in /proc.
///
/// # Errors
/// `Errno::FAULT` if some bytes are not readable.
fn read_readable(address: u64, buf: &mut [u8]) -> Result<(), Errno> {
    let here = iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    let there = iovec { iov_base: address as *mut _, iov_len: buf.len() };
    // SAFETY: the kernel writes only within `buf`, and checks the memory that it reads.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
    match usize::try_from(read) {
        Ok(bytes) if bytes == buf.len() => Ok(()),
        Ok(_) => Err(Errno::FAULT),
        // SAFETY: `errno` belongs to this thread.
        Err(_) => Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() })),
    }
}

/// Writes `bytes` to `address`, regardless of the protection of the memory.
///
/// # Safety
/// No live reference requires that the bytes at `address` do not change.
unsafe fn write(address: u64, bytes: &[u8]) -> Result<(), Errno> {
    MEMORY.with(|file| {
        let mut done = 0;
        while done < bytes.len() {
            match pwrite(file, &bytes[done..], address + done as u64) {
                Ok(0) => return Err(Errno::BADF),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}
