//! mimalloc.
//!
//! # Safety
//! `mi_malloc` and `mi_free` keep the C standard's contract, which is the trait's.
#![allow(unsafe_code)]

use super::Allocator;
use crate::Error;

/// mimalloc.
#[derive(Debug)]
pub struct Mimalloc;

// SAFETY: mi_malloc gives null or a block of its own of `size` bytes.
unsafe impl Allocator for Mimalloc {
    const NAME: &str = "mimalloc";

    #[inline]
    fn malloc(size: usize) -> *mut u8 {
        // SAFETY: any size may be asked for.
        unsafe { libmimalloc_sys::mi_malloc(size) }.cast()
    }

    #[inline]
    unsafe fn free(block: *mut u8) {
        // SAFETY: the caller has it from mi_malloc.
        unsafe { libmimalloc_sys::mi_free(block.cast()) }
    }

    fn purge() -> Result<(), Error> {
        // SAFETY: it touches free memory only.
        unsafe { libmimalloc_sys::mi_collect(true) };
        Ok(())
    }
}
