//! The functions of this crate for processors on which calls can't be dispatched yet.
//!
//! # Safety
//! The functions have no effect.
#![allow(unsafe_code)]

use crate::{Error, Hook};

/// A system call. The type has no values, because no call is dispatched.
#[derive(Debug)]
pub enum Call {}

/// Returns an error.
///
/// # Errors
/// [`Error::Unsupported`]
///
/// # Safety
/// The requirements are those on x86-64.
pub unsafe fn arm(_: &'static dyn Hook) -> Result<(), Error> {
    Err(Error::Unsupported { errno: libc::ENOSYS })
}
