//! Descriptors that the program may close, though it does not know them.
//!
//! It may close them at any moment, and get other files under their numbers. So a descriptor has a
//! high number, which calls that open files don't give out, and is known by what it names.
//!
//! ```text
//!   63 .. 32             31 .. 20       19 .. 0
//!   | name of the file | which opening | descriptor + 1 |     0: none
//! ```
//! # Safety
//! Descriptors are borrowed by number. If one was closed since, the calls on it fail, or are made
//! on another file, which a look afterwards tells; one is closed only if the last look said that it
//! is ours.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Stat, fstat};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const NUMBER: u64 = (1 << 20) - 1;
/// Openings are told apart, as one may get the number of the one before.
const OPENING: u64 = 1 << 20;
/// Numbers at the end of those that may be had, or of those that a small table holds.
const LAST: u64 = 32;
const TABLE: u64 = 1024;

static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor(u64);

/// Returns what tells a file from others.
pub(crate) fn name(stat: &Stat) -> u32 {
    let both = stat.st_ino ^ stat.st_dev.rotate_left(32);
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// An open file, which is closed by the system call itself when it is dropped: in the C library's
/// `close`, which ends an [`OwnedFd`], a thread may be cancelled, which can't unwind from what
/// answers a fault.
#[derive(Debug)]
pub(crate) struct File(ManuallyDrop<OwnedFd>);

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
        // SAFETY: it is this one's, and nobody's any more: what is within is not dropped.
        _ = unsafe { libc::syscall(libc::SYS_close, self.0.as_raw_fd()) };
    }
}

impl Descriptor {
    pub(crate) const NONE: Self = Descriptor(0);

    /// Returns the descriptor of a file with this name, under a high number if there is one.
    pub(crate) fn raised(name: u32, file: File) -> Self {
        let opening = OPENINGS.fetch_add(OPENING, SeqCst) as u32;
        let pack = |file: File| {
            let number = (ManuallyDrop::new(file).as_fd().as_raw_fd() + 1) as u64;
            Descriptor(u64::from(name) << 32 | u64::from(opening) | number)
        };
        let low = pack(file);
        let max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(TABLE);
        match fcntl_dupfd_cloexec(low.borrow(), max.saturating_sub(LAST) as i32) {
            Ok(high) => {
                low.close();
                pack(high.into())
            }
            Err(_) => low,
        }
    }

    /// Returns the descriptor that [`packed`](Self::packed) gave.
    pub(crate) fn unpack(packed: u64) -> Self {
        Descriptor(packed)
    }

    pub(crate) const fn packed(self) -> u64 {
        self.0
    }

    fn number(self) -> i32 {
        (self.0 & NUMBER) as i32 - 1
    }

    /// Borrows it, unless it is none.
    pub(crate) fn file(self) -> Option<BorrowedFd<'static>> {
        (self != Self::NONE).then(|| self.borrow())
    }

    fn borrow(self) -> BorrowedFd<'static> {
        // SAFETY: a number that `raised` was given, and not -1; see the head of this file.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }

    /// Returns what the system says of it, if it names its file still.
    pub(crate) fn look(self) -> Option<Stat> {
        fstat(self.file()?).ok().filter(|stat| u64::from(name(stat)) == self.0 >> 32)
    }

    /// Closes it if it names its file still. Nobody uses it.
    pub(crate) fn close(self) {
        if self.look().is_some() {
            // SAFETY: as the look has just said, and the caller. Where another has closed it since
            // it fails.
            _ = unsafe { libc::syscall(libc::SYS_close, self.number()) };
        }
    }
}
