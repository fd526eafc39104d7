//! Other processors, on which calls can't be dispatched yet.
//!
//! # Safety
//! Nothing is done.
#![allow(unsafe_code)]

use crate::{Error, Hook};

/// A system call, which does not occur.
#[derive(Debug)]
pub enum Call {}

/// Fails.
///
/// # Errors
/// [`Error::Unsupported`]
///
/// # Safety
/// As on x86-64.
pub unsafe fn arm(_: &'static dyn Hook) -> Result<(), Error> {
    Err(Error::Unsupported { errno: libc::ENOSYS })
}
