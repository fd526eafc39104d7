//! The lz4 library alone: its encoder and its decoder.
//!
//! # Safety
//! Each function receives the start and the length of a slice and accesses no memory outside it.
#![allow(unsafe_code)]

use lz4_sys::{LZ4_compress_default, LZ4_compressBound, LZ4_decompress_safe, c_int};

use crate::Error;

/// Returns the compressed form of a page.
pub(super) fn compressed(page: &[u8]) -> Vec<u8> {
    // The cast is lossless, because `page` has the length of a page.
    let bytes = page.len() as c_int;
    // SAFETY: the function takes and returns numbers, and accesses no memory.
    let room = unsafe { LZ4_compressBound(bytes) };
    let mut block = vec![0; room.unsigned_abs() as usize];
    let (from, to) = (page.as_ptr().cast(), block.as_mut_ptr().cast());
    // SAFETY: each pointer and its length describe a live slice, as the function requires.
    let written = unsafe { LZ4_compress_default(from, to, bytes, room) };
    block.truncate(written.unsigned_abs() as usize);
    block
}

/// Decompresses an lz4 block into all of `page`.
pub(super) fn decompress(block: &[u8], page: &mut [u8]) -> Result<(), Error> {
    // The casts are lossless, because one length is that of a page, and the other is that of a
    // compressed page.
    let (bytes, room) = (block.len() as c_int, page.len() as c_int);
    let (from, to) = (block.as_ptr().cast(), page.as_mut_ptr().cast());
    // SAFETY: each pointer and its length describe a live slice, as the function requires.
    let written = unsafe { LZ4_decompress_safe(from, to, bytes, room) };
    if written == room {
        return Ok(());
    }
    Err(Error::Mismatch { device: "the lz4 library".into(), offset: 0 })
}
