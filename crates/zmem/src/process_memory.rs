//! Reads and writes this process's memory by way of its file in /proc, which works below the
//! memory's protection.
//!
//! The descriptor means the memory of the process that opened it. A child that used the one it
//! inherited would write to its parent's memory, so it opens its own.
#![allow(unsafe_code)]

use crate::kept_file::MEMORY;
use libc::iovec;
use rustix::io::{Errno, pread, pwrite};

/// Reads the bytes at an address, whatever their protection.
pub(crate) fn read(address: u64, buf: &mut [u8]) -> Result<(), Errno> {
    MEMORY.with(|file| {
        let mut done = 0;
        while done < buf.len() {
            match pread(file, &mut buf[done..], address + done as u64) {
                // No such file ends, so it is another's by now.
                Ok(0) => return Err(Errno::BADF),
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Reads the bytes at an address where they can be read, without that file.
///
/// # Errors
/// `Errno::FAULT` if some can't be read.
pub(crate) fn read_readable(address: u64, buf: &mut [u8]) -> Result<(), Errno> {
    let here = iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    let there = iovec { iov_base: address as *mut _, iov_len: buf.len() };
    // SAFETY: `buf` is written to, within its length; what is read, the system looks at.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
    match usize::try_from(read) {
        Ok(bytes) if bytes == buf.len() => Ok(()),
        Ok(_) => Err(Errno::FAULT),
        // SAFETY: `errno` is this thread's own.
        Err(_) => Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() })),
    }
}

/// Writes to an address, whatever the protection there.
///
/// # Safety
/// No live reference promises that the bytes do not change.
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
