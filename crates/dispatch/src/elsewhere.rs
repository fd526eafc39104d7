//! Other processors: there is nothing yet that answers a dispatched call.
//!
//! # Safety
//! Nothing is done.
#![allow(unsafe_code)]

use crate::{Error, Hook};

/// A system call: none comes.
#[derive(Debug)]
pub enum Call {}

/// Refuses.
///
/// # Errors
/// [`Error::Unsupported`]
///
/// # Safety
/// As on x86-64.
pub unsafe fn arm(_: &'static dyn Hook) -> Result<(), Error> {
    Err(Error::Unsupported { errno: libc::ENOSYS })
}
