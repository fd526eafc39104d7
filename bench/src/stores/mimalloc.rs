//! mimalloc.
//!
//! # Safety
//! `mi_malloc` and `mi_free` obey the contract of the C standard, which is the contract of the
//! trait.
#![allow(unsafe_code)]

use super::Allocator;
use crate::Error;

/// mimalloc.
#[derive(Debug)]
pub struct Mimalloc;

// SAFETY: mi_malloc returns null or a new block of `size` bytes.
unsafe impl Allocator for Mimalloc {
    const NAME: &str = "mimalloc";

    #[inline]
    fn malloc(size: usize) -> *mut u8 {
        // SAFETY: mi_malloc accepts any size.
        unsafe { libmimalloc_sys::mi_malloc(size) }.cast()
    }

    #[inline]
    unsafe fn free(block: *mut u8) {
        // SAFETY: the caller promises that the block came from mi_malloc.
        unsafe { libmimalloc_sys::mi_free(block.cast()) }
    }

    fn purge() -> Result<(), Error> {
        // SAFETY: the call touches free memory only.
        unsafe { libmimalloc_sys::mi_collect(true) };
        Ok(())
    }
}
