//! System calls that are not dispatched.
//!
//! # Safety
//! These calls change only memory that the caller owns, or change the program's memory in the way
//! that the program requested.
#![allow(unsafe_code)]

use crate::x86_64::instructions::raw_syscall;

/// The negative error number of a failed system call.
pub type Failed = isize;

/// Makes a system call.
///
/// # Errors
/// The negative error number.
pub fn system(number: i64, args: [usize; 6]) -> Result<usize, Failed> {
    // SAFETY: the caller makes only calls that the module's documentation allows.
    let result = unsafe { raw_syscall(number as usize, args) };
    if (-4095..0).contains(&result) { Err(result) } else { Ok(result as usize) }
}
