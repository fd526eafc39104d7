//! How a userfaultfd is opened, in every way that exists, and how requests are sent to it.
//!
//! # Safety
//! Numbers and structures are those of [`abi`](super::abi).
#![allow(unsafe_code)]

use super::abi::*;
use crate::descriptor::File;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// How a fault is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// By messages to the thread that reads the descriptor; this includes faults of system calls.
    Messages,
    /// By a SIGBUS to the thread; a system call fails.
    Signal,
}

/// Whether the kernel moves pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanMove {
    Yes,
    No,
}

fn open(may_see: i32) -> Result<File, Errno> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: it makes a descriptor, which nothing else owns.
    match unsafe { libc::syscall(libc::SYS_userfaultfd, flags | may_see) } {
        // SAFETY: as above.
        file @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(file as i32) }.into()),
        _ => Err(last_error()),
    }
}

fn open_device() -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = File::from(rustix::fs::open(c"/dev/userfaultfd", flags, Mode::empty())?);
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: it makes a descriptor, which nothing else owns.
    match unsafe { libc::ioctl(device.as_fd().as_raw_fd(), NEW as _, flags) } {
        // SAFETY: as above.
        file @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(file) }.into()),
        _ => Err(last_error()),
    }
}

fn last_error() -> Errno {
    // SAFETY: it is this thread's own.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Opens a userfaultfd, and agrees on its features with the kernel.
pub(super) fn open_for(delivery: Delivery, wants_move: CanMove) -> Result<(File, CanMove), Errno> {
    let (file, feature) = match delivery {
        Delivery::Messages => (open(0).or_else(|_| open_device())?, FEATURE_THREAD_ID),
        // Linux before 5.11 does not have the flag.
        Delivery::Signal => {
            let file = open(USER_MODE_ONLY).or_else(|_| open(0)).or_else(|_| open_device());
            (file?, FEATURE_SIGBUS)
        }
    };
    let agree = |features| {
        let mut api = Api { version: API_VERSION, features, calls: 0 };
        // SAFETY: the structure is the one that belongs to `API`.
        unsafe { ask(file.as_fd(), API, &mut api) }
    };
    let needed = feature | FEATURE_WRITEPROTECT;
    if wants_move == CanMove::Yes && agree(needed | FEATURE_MOVE).is_ok() {
        return Ok((file, CanMove::Yes));
    }
    agree(needed)?;
    Ok((file, CanMove::No))
}

/// Sends a request to the kernel.
///
/// # Safety
/// `of` is the structure that belongs to `request`, and the memory that it names may be changed in
/// this way.
pub(super) unsafe fn ask<T>(file: BorrowedFd<'_>, request: u64, of: &mut T) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller.
    match unsafe { libc::ioctl(file.as_raw_fd(), request as _, &raw mut *of) } {
        0.. => Ok(()),
        _ => Err(last_error()),
    }
}
