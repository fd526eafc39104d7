//! /proc/self/mem: reads and writes memory of this process by system call, below its protection.
//!
//! The descriptor means the memory of the process that opened it, so a child opens it anew: through
//! the inherited one it would write to its parent. A program may close descriptors that it does not
//! know, and get others under their number; so before each use it is looked at.
#![allow(unsafe_code)]

use page::fork::generation;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::{Errno, pread, pwrite};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

/// What no descriptor is packed to.
const NONE: u64 = 0;

/// A descriptor and what tells that it is still ours.
#[derive(Debug)]
pub(crate) struct ProcessMemory {
    /// Generation of the process and, above it, the descriptor + 1.
    file: AtomicU64,
    inode: AtomicU64,
}

pub(crate) static PROCESS_MEMORY: ProcessMemory =
    ProcessMemory { file: AtomicU64::new(NONE), inode: AtomicU64::new(0) };

/// The number of a file among those of its file system.
fn inode(file: BorrowedFd<'_>) -> u64 {
    // Files of /proc have no data on a device, other file systems' seldom have its number.
    fstat(file).map_or(0, |stat| stat.st_ino ^ stat.st_dev.rotate_left(32))
}

impl ProcessMemory {
    /// The descriptor, if it is this process's and ours.
    fn current(&self) -> Option<BorrowedFd<'static>> {
        let packed = self.file.load(Acquire);
        if packed == NONE || packed as u32 != generation() {
            return None;
        }
        let number = (packed >> 32) as i32 - 1;
        // SAFETY: a number that `open` gave, and not -1. If it was closed since, the calls on it
        // fail, or say that it is another file.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        (inode(file) == self.inode.load(Acquire)).then_some(file)
    }

    fn reopen(&self) -> Result<OwnedFd, Errno> {
        open(c"/proc/self/mem", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    }

    /// Has the descriptor be kept for the next calls, in place of what there was.
    fn keep(&self, file: OwnedFd) {
        let before = self.file.load(Acquire);
        let packed = (file.as_raw_fd() as u64 + 1) << 32 | u64::from(generation());
        if self.file.compare_exchange(before, packed, Release, Acquire).is_err() {
            return;
        }
        let inode_before = self.inode.swap(inode(file.as_fd()), Release);
        std::mem::forget(file);
        // What this process has, another thread may be using; what it was left by its parent, no
        // one does.
        if before != NONE && before as u32 != generation() {
            // SAFETY: as in `current`.
            let file = unsafe { BorrowedFd::borrow_raw((before >> 32) as i32 - 1) };
            if inode(file) == inode_before {
                // SAFETY: it is what `keep` put there, in a process that this one was forked from,
                // and the exchange above has just made it nobody's.
                drop(unsafe { OwnedFd::from_raw_fd(file.as_raw_fd()) });
            }
        }
    }

    fn with(&self, work: impl Fn(BorrowedFd<'_>) -> Result<(), Errno>) -> Result<(), Errno> {
        match self.current() {
            Some(file) => work(file),
            None => {
                let file = self.reopen()?;
                work(file.as_fd())?;
                self.keep(file);
                Ok(())
            }
        }
    }

    /// Opens it, if that is permitted.
    pub(crate) fn open(&self) -> Result<(), Errno> {
        self.with(|_| Ok(()))
    }

    /// Reads what lies at an address, whoever may.
    pub(crate) fn read(&self, address: u64, buf: &mut [u8]) -> Result<(), Errno> {
        let buf = std::cell::RefCell::new(buf);
        self.with(|file| {
            let (mut buf, mut done) = (buf.borrow_mut(), 0);
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

    /// Writes to an address, whoever may.
    ///
    /// # Safety
    /// No reference that lives says that the bytes stay as they are.
    pub(crate) unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.with(|file| {
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
}
