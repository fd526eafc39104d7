//! The kernel's interface of userfaultfd: numbers and structures, which are the same on all
//! supported processors, and the calls that open a userfaultfd and send requests to it.
#![allow(unsafe_code)]

use crate::descriptor::File;
use crate::error::last_error;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// How the kernel reports a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// By a message, which a thread reads from the userfaultfd. Faults of system calls are also
    /// reported.
    Messages,
    /// By a SIGBUS to the faulting thread. System calls on absent memory fail.
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
    // SAFETY: the call creates a descriptor, which no other value owns, and accesses no memory.
    unsafe { owned(libc::syscall(libc::SYS_userfaultfd, flags | may_see)) }
}

fn open_device() -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = File::from(rustix::fs::open(c"/dev/userfaultfd", flags, Mode::empty())?);
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the call creates a descriptor, which no other value owns, and accesses no memory.
    unsafe { owned(libc::ioctl(device.as_fd().as_raw_fd(), NEW as _, flags).into()) }
}

/// Returns the descriptor that a call has created, or the error of the call.
///
/// # Safety
/// `file` is the result of a call that creates a descriptor. No other value owns the descriptor.
unsafe fn owned(file: i64) -> Result<File, Errno> {
    match i32::try_from(file) {
        // SAFETY: guaranteed by the caller.
        Ok(file @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(file) }.into()),
        _ => Err(last_error()),
    }
}

/// Opens a userfaultfd, and enables its features.
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
        // SAFETY: `Api` is the structure that belongs to the request `API`. This request concerns
        // no memory.
        unsafe { ask(file.as_fd(), API, &mut api) }
    };
    let needed = feature | FEATURE_WRITEPROTECT;
    if wants_move == CanMove::Yes && agree(needed | FEATURE_MOVE).is_ok() {
        return Ok((file, CanMove::Yes));
    }
    agree(needed)?;
    Ok((file, CanMove::No))
}

/// Sends a request to the kernel, through the userfaultfd `file`.
///
/// # Safety
/// `of` is the structure that belongs to `request`, and the caller is allowed to change the memory
/// that the structure refers to.
pub(super) unsafe fn ask<T>(file: BorrowedFd<'_>, request: u64, of: &mut T) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller.
    match unsafe { libc::ioctl(file.as_raw_fd(), request as _, &raw mut *of) } {
        0.. => Ok(()),
        _ => Err(last_error()),
    }
}

pub(super) const fn request(direction: u64, number: u64, bytes: usize) -> u64 {
    direction << 30 | (bytes as u64) << 16 | 0xAA << 8 | number
}

pub(super) const OUT: u64 = 2;
pub(super) const BOTH: u64 = 3;
pub(super) const NEW: u64 = request(0, 0, 0);
pub(super) const API: u64 = request(BOTH, 0x3F, size_of::<Api>());
pub(super) const REGISTER: u64 = request(BOTH, 0, size_of::<Register>());
pub(super) const UNREGISTER: u64 = request(OUT, 1, size_of::<Place>());
pub(super) const WAKE: u64 = request(OUT, 2, size_of::<Place>());
pub(super) const COPY: u64 = request(BOTH, 3, size_of::<Transfer>());
pub(super) const ZEROPAGE: u64 = request(BOTH, 4, size_of::<Zeropage>());
pub(super) const MOVE: u64 = request(BOTH, 5, size_of::<Transfer>());
pub(super) const WRITEPROTECT: u64 = request(BOTH, 6, size_of::<Writeprotect>());

pub(super) const USER_MODE_ONLY: i32 = 1;
pub(super) const API_VERSION: u64 = 0xAA;
pub(super) const FEATURE_WRITEPROTECT: u64 = 1;
pub(super) const FEATURE_SIGBUS: u64 = 1 << 7;
pub(super) const FEATURE_THREAD_ID: u64 = 1 << 8;
pub(super) const FEATURE_MOVE: u64 = 1 << 16;
/// The mode in which staging areas are registered. Pages can be moved to this memory, and accesses
/// to absent pages are not reported.
pub(crate) const QUIET: u64 = 2;
/// The mode in which regions are registered. Accesses to absent pages and writes to protected pages
/// are reported.
pub(crate) const REPORTED: u64 = 1 | QUIET;
/// The mode of all requests that fill pages. The kernel wakes no threads that wait for these pages.
/// The pager wakes the threads after it has published the block's state.
pub(super) const NO_WAKE: u64 = 1;
pub(super) const ALLOW_HOLES: u64 = 2;
/// The mode that write-protects pages. `UNPROTECT_NO_WAKE` removes the protection without waking
/// threads.
pub(super) const PROTECT: u64 = 1;
pub(super) const UNPROTECT_NO_WAKE: u64 = 2;
pub(super) const EVENT_PAGEFAULT: u8 = 0x12;

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) bytes: u64,
}

#[repr(C)]
pub(super) struct Api {
    pub(super) version: u64,
    pub(super) features: u64,
    pub(super) calls: u64,
}

#[repr(C)]
pub(super) struct Register {
    pub(super) place: Place,
    pub(super) mode: u64,
    pub(super) calls: u64,
}

/// The structure of a request to copy or move pages.
#[repr(C)]
pub(super) struct Transfer {
    pub(super) to: u64,
    pub(super) from: u64,
    pub(super) bytes: u64,
    pub(super) mode: u64,
    pub(super) done: i64,
}

#[repr(C)]
pub(super) struct Zeropage {
    pub(super) place: Place,
    pub(super) mode: u64,
    pub(super) done: i64,
}

#[repr(C)]
pub(super) struct Writeprotect {
    pub(super) place: Place,
    pub(super) mode: u64,
}

#[repr(C)]
pub(super) struct Message {
    pub(super) event: u8,
    _unused: [u8; 7],
    _flags: u64,
    pub(super) address: u64,
    pub(super) thread: u32,
    _rest: u32,
}
