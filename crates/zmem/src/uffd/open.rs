//! Opens a userfaultfd in each way that the kernel offers, and sends requests to it.
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
    /// By messages, which a thread reads from the descriptor. Faults in system calls are reported
    /// too.
    Messages,
    /// By a SIGBUS to the faulting thread. A system call that faults fails.
    Signal,
}

/// Whether the kernel can move pages between mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanMove {
    Yes,
    No,
}

fn open(may_see: i32) -> Result<File, Errno> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the call creates a descriptor, and accesses no memory.
    match unsafe { libc::syscall(libc::SYS_userfaultfd, flags | may_see) } {
        // SAFETY: the call has just created the descriptor, which nothing else owns.
        file @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(file as i32) }.into()),
        _ => Err(last_error()),
    }
}

fn open_device() -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = File::from(rustix::fs::open(c"/dev/userfaultfd", flags, Mode::empty())?);
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the call creates a descriptor, and accesses no memory.
    match unsafe { libc::ioctl(device.as_fd().as_raw_fd(), NEW as _, flags) } {
        // SAFETY: the call has just created the descriptor, which nothing else owns.
        file @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(file) }.into()),
        _ => Err(last_error()),
    }
}

fn last_error() -> Errno {
    // SAFETY: the C library returns a valid pointer to the `errno` of this thread.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Opens a userfaultfd, and agrees on its features with the kernel.
pub(super) fn open_for(delivery: Delivery, wants_move: CanMove) -> Result<(File, CanMove), Errno> {
    let (file, feature) = match delivery {
        Delivery::Messages => (open(0).or_else(|_| open_device())?, FEATURE_THREAD_ID),
        // Linux before 5.11 does not support USER_MODE_ONLY.
        Delivery::Signal => {
            let file = open(USER_MODE_ONLY).or_else(|_| open(0)).or_else(|_| open_device());
            (file?, FEATURE_SIGBUS)
        }
    };
    let agree = |features| {
        let mut api = Api { version: API_VERSION, features, calls: 0 };
        // SAFETY: `Api` is the structure that belongs to the request `API`, which concerns no
        // memory.
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
/// `of` is the structure that belongs to `request`, and the caller may change the memory that the
/// structure refers to.
pub(super) unsafe fn ask<T>(file: BorrowedFd<'_>, request: u64, of: &mut T) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller.
    match unsafe { libc::ioctl(file.as_raw_fd(), request as _, &raw mut *of) } {
        0.. => Ok(()),
        _ => Err(last_error()),
    }
}
