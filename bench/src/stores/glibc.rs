//! The C library's malloc.
//!
//! # Safety
//! `malloc` and `free` keep the C standard's contract, which is the trait's.
#![allow(unsafe_code)]

use super::Allocator;
use crate::Error;

/// The C library's malloc.
#[derive(Debug)]
pub struct Glibc;

// SAFETY: malloc gives null or a block of its own of `size` bytes.
unsafe impl Allocator for Glibc {
    const NAME: &str = "glibc malloc";

    #[inline]
    fn malloc(size: usize) -> *mut u8 {
        // SAFETY: any size may be asked for.
        unsafe { libc::malloc(size) }.cast()
    }

    #[inline]
    unsafe fn free(block: *mut u8) {
        // SAFETY: the caller has it from malloc.
        unsafe { libc::free(block.cast()) }
    }

    fn purge() -> Result<(), Error> {
        // SAFETY: it touches free memory only. That there was none to give back is no error.
        unsafe { libc::malloc_trim(0) };
        Ok(())
    }
}
