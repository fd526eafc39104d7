//! jemalloc, with prefixed names, so that it does not replace another allocator.
//!
//! # Safety
//! `malloc` and `free` obey the contract of the C standard, which is the contract of the trait.
#![allow(unsafe_code)]

use std::ptr;

use super::Allocator;
use crate::Error;

/// All arenas (MALLCTL_ARENAS_ALL is 4096).
const PURGE: &std::ffi::CStr = c"arena.4096.purge";

/// jemalloc.
#[derive(Debug)]
pub struct Jemalloc;

// SAFETY: malloc returns null or a new block of `size` bytes.
unsafe impl Allocator for Jemalloc {
    const NAME: &str = "jemalloc";

    #[inline]
    fn malloc(size: usize) -> *mut u8 {
        // SAFETY: malloc accepts any size.
        unsafe { tikv_jemalloc_sys::malloc(size) }.cast()
    }

    #[inline]
    unsafe fn free(block: *mut u8) {
        // SAFETY: the caller promises that the block came from malloc.
        unsafe { tikv_jemalloc_sys::free(block.cast()) }
    }

    fn purge() -> Result<(), Error> {
        let (null, none) = (ptr::null_mut, ptr::null_mut);
        // SAFETY: the name ends with a zero byte; the command reads and writes no value.
        let status =
            unsafe { tikv_jemalloc_sys::mallctl(PURGE.as_ptr(), null(), none(), null(), 0) };
        if status == 0 {
            return Ok(());
        }
        Err(Error::Setup {
            reason: format!("jemalloc's purge gave status {status}"),
            remedy: "take a jemalloc that knows arena.<all>.purge (4 or later)",
        })
    }
}
