//! Descriptors of this crate that the program may close, because they are hidden from the program.
//!
//! The program may close such a descriptor at any moment, and open another file under the same
//! number. So a descriptor has a high number, which calls that open files don't return, and the
//! file to which it refers is checked before use.
//!
//! ```text
//!   63 .. 32             31 .. 20       19 .. 0
//!   | name of the file | which opening | descriptor + 1 |     0: none
//! ```
//! # Safety
//! Descriptors are borrowed by number. If the program closed a descriptor in the meantime, calls on
//! it fail or affect another file, which a check afterwards detects. A descriptor is closed only if
//! the last check showed that it still refers to this crate's file.
#![allow(unsafe_code)]

use crate::policy::{LAST_NUMBERS, NUMBERS_MAX};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Stat, fstat};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const NUMBER: u64 = (1 << 20) - 1;
/// The lowest bit of the number of the opening, which distinguishes successive openings under the
/// same descriptor number.
const OPENING: u64 = 1 << 20;

static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor(pub(crate) u64);

/// Returns a hash of a file's device and inode, which distinguishes the file from others.
pub(crate) fn name(stat: &Stat) -> u32 {
    let both = stat.st_ino ^ stat.st_dev.rotate_left(32);
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// An open file. Dropping the value closes the file by a direct system call: the C library's
/// `close`, which [`OwnedFd`] calls, is a cancellation point, and a fault handler can't be unwound.
#[derive(Debug)]
pub struct File(ManuallyDrop<OwnedFd>);

impl From<OwnedFd> for File {
    fn from(file: OwnedFd) -> Self {
        File(ManuallyDrop::new(file))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: this value owns the descriptor, and no code uses it afterwards: `ManuallyDrop`
        // does not close the descriptor.
        _ = unsafe { libc::syscall(libc::SYS_close, self.0.as_raw_fd()) };
    }
}

impl Descriptor {
    pub(crate) const NONE: Self = Descriptor(0);

    /// Moves `file`, whose hash is `name`, to a descriptor with a high number, if one is free.
    /// Returns the descriptor.
    pub(crate) fn raised(name: u32, file: File) -> Self {
        let opening = OPENINGS.fetch_add(OPENING, SeqCst) as u32;
        let pack = |file: File| {
            let number = (ManuallyDrop::new(file).as_fd().as_raw_fd() + 1) as u64;
            Descriptor(u64::from(name) << 32 | u64::from(opening) | number)
        };
        let low = pack(file);
        let max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(NUMBERS_MAX);
        match fcntl_dupfd_cloexec(low.borrow(), max.saturating_sub(LAST_NUMBERS) as i32) {
            Ok(high) => {
                low.close();
                pack(high.into())
            }
            Err(_) => low,
        }
    }

    fn number(self) -> i32 {
        (self.0 & NUMBER) as i32 - 1
    }

    /// Borrows the descriptor, unless it is `NONE`.
    pub(crate) fn file(self) -> Option<BorrowedFd<'static>> {
        (self != Self::NONE).then(|| self.borrow())
    }

    fn borrow(self) -> BorrowedFd<'static> {
        // SAFETY: the number is not -1, because `raised` got it from the kernel. The module
        // documentation states why a closed descriptor is harmless.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }

    /// Returns the file's metadata, if the descriptor still refers to this crate's file.
    pub(crate) fn look(self) -> Option<Stat> {
        fstat(self.file()?).ok().filter(|stat| u64::from(name(stat)) == self.0 >> 32)
    }

    /// Closes the descriptor if it still refers to this crate's file. The caller guarantees that no
    /// thread uses the descriptor.
    pub(crate) fn close(self) {
        if self.look().is_some() {
            // SAFETY: the descriptor referred to our file just before, and the caller guarantees
            // that no thread uses the descriptor. If another thread has closed it in the meantime,
            // the call fails.
            _ = unsafe { libc::syscall(libc::SYS_close, self.number()) };
        }
    }
}
