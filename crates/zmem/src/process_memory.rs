//! Reads and writes the memory of this process through /proc/thread-self/mem, which ignores the
//! protection of the memory.
//!
//! The descriptor refers to the memory of the process that opened it. A child that used the
//! inherited descriptor would write to its parent's memory, so the child opens the file again.
#![allow(unsafe_code)]

use crate::kept_file::MEMORY;
use libc::iovec;
use rustix::io::{Errno, pread, pwrite};

/// Reads the bytes at `address`, regardless of their protection.
pub(crate) fn read(address: u64, buf: &mut [u8]) -> Result<(), Errno> {
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
pub(crate) fn read_readable(address: u64, buf: &mut [u8]) -> Result<(), Errno> {
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
pub(crate) unsafe fn write(address: u64, bytes: &[u8]) -> Result<(), Errno> {
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
