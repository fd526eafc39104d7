//! The C library's malloc.
//!
//! # Safety
//! `malloc` and `free` obey the contract of the C standard, which is the contract of the trait.
#![allow(unsafe_code)]

use super::Allocator;
use crate::Error;

/// The C library's malloc.
#[derive(Debug)]
pub struct Glibc;

// SAFETY: malloc returns null or a new block of `size` bytes.
unsafe impl Allocator for Glibc {
    const NAME: &str = "glibc malloc";

    #[inline]
    fn malloc(size: usize) -> *mut u8 {
        // SAFETY: malloc accepts any size.
        unsafe { libc::malloc(size) }.cast()
    }

    #[inline]
    unsafe fn free(block: *mut u8) {
        // SAFETY: the caller promises that the block came from malloc.
        unsafe { libc::free(block.cast()) }
    }

    fn purge() -> Result<(), Error> {
        // SAFETY: the call touches free memory only. A result of 0 means that no memory could be
        // released, which is no error.
        unsafe { libc::malloc_trim(0) };
        Ok(())
    }
}
