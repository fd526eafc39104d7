//! The lz4 library as it is: its blocks, and its decoder.
//!
//! # Safety
//! Each function gets the start and the length of a slice, and touches nothing beside it.
#![allow(unsafe_code)]

use lz4_sys::{LZ4_compress_default, LZ4_compressBound, LZ4_decompress_safe, c_int};

use crate::Error;

/// Returns a page, compressed.
pub(super) fn compressed(page: &[u8]) -> Vec<u8> {
    // A page's length.
    let bytes = page.len() as c_int;
    // SAFETY: takes and returns numbers.
    let room = unsafe { LZ4_compressBound(bytes) };
    let mut block = vec![0; room.unsigned_abs() as usize];
    let (from, to) = (page.as_ptr().cast(), block.as_mut_ptr().cast());
    // SAFETY: both are slices with their lengths.
    let written = unsafe { LZ4_compress_default(from, to, bytes, room) };
    block.truncate(written.unsigned_abs() as usize);
    block
}

/// Decompresses a block of lz4 into all of `page`.
pub(super) fn decompress(block: &[u8], page: &mut [u8]) -> Result<(), Error> {
    // Lengths of a page, and of a block no longer than its bound.
    let (bytes, room) = (block.len() as c_int, page.len() as c_int);
    let (from, to) = (block.as_ptr().cast(), page.as_mut_ptr().cast());
    // SAFETY: both are slices with their lengths.
    let written = unsafe { LZ4_decompress_safe(from, to, bytes, room) };
    if written == room {
        return Ok(());
    }
    Err(Error::Mismatch { device: "the lz4 library".into(), offset: 0 })
}
