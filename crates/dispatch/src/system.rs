//! System calls that are not dispatched.
//!
//! # Safety
//! These calls change only memory of the caller, or change the program's memory as the program
//! requested.
#![allow(unsafe_code)]

use crate::x86_64::instructions::raw_syscall;
use std::ffi::{CStr, c_int};

/// The negative error number of a failed system call.
pub type Failed = isize;

/// Makes a system call.
///
/// # Errors
/// Fails with the negative error number.
pub fn system(number: i64, args: [usize; 6]) -> Result<usize, Failed> {
    // SAFETY: the caller makes only calls that the module's documentation allows.
    let result = unsafe { raw_syscall(number as usize, args) };
    if (-4095..0).contains(&result) { Err(result) } else { Ok(result as usize) }
}

/// A file that was opened by a call that is not dispatched. The descriptor is closed on drop.
#[derive(Debug)]
pub struct OwnFile(usize);

impl OwnFile {
    /// Opens the file at `path`, with close-on-exec.
    ///
    /// # Errors
    /// Fails with the negative error number.
    pub fn open(path: &CStr, flags: c_int) -> Result<Self, Failed> {
        let (at, flags) = (libc::AT_FDCWD as usize, (flags | libc::O_CLOEXEC) as usize);
        system(libc::SYS_openat, [at, path.as_ptr().addr(), flags, 0, 0, 0]).map(OwnFile)
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> usize {
        self.0
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _closed = system(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]);
    }
}
