//! System calls that are not dispatched.
//!
//! # Safety
//! The caller makes calls that change memory of its own, or memory as the program has asked.
#![allow(unsafe_code)]

use crate::x86_64::instructions::raw_syscall;

/// The error of a failed system call, below 0.
pub type Failed = isize;

/// Makes a system call.
///
/// # Errors
/// The error's number below 0.
pub fn system(number: i64, args: [usize; 6]) -> Result<usize, Failed> {
    // SAFETY: see the module's documentation.
    let result = unsafe { raw_syscall(number as usize, args) };
    if (-4095..0).contains(&result) { Err(result) } else { Ok(result as usize) }
}
