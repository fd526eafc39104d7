//! Reads and writes this process's memory by way of its file in /proc, which works below the
//! memory's protection.
//!
//! The descriptor means the memory of the process that opened it. A child that used the one it
//! inherited would write to its parent's memory, so it opens its own.
#![allow(unsafe_code)]

use crate::kept_file::MEMORY;
use rustix::io::{Errno, pread, pwrite};

/// Reads the bytes at an address, whatever their protection.
pub(crate) fn read(address: u64, buf: &mut [u8]) -> Result<(), Errno> {
    MEMORY.with(|file| {
        let mut done = 0;
        while done < buf.len() {
            match pread(file, &mut buf[done..], address + done as u64) {
                Ok(0) => return Err(Errno::FAULT),
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
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
                Ok(0) => return Err(Errno::FAULT),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}
