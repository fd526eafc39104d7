//! The raw codec: what a page comes to when nothing is stored around it.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::page::PAGE_SIZE;

/// C lz4 with its default speed, one page at a time, into a buffer of its own.
#[derive(Debug)]
pub struct RawLz4 {
    out: Vec<u8>,
}

impl Default for RawLz4 {
    fn default() -> RawLz4 {
        RawLz4::new()
    }
}

impl RawLz4 {
    /// With room for whatever a page comes to.
    pub fn new() -> RawLz4 {
        // LZ4_compressBound: what does not compress grows by a 255th and 16 bytes.
        RawLz4 { out: vec![0; PAGE_SIZE + PAGE_SIZE / 255 + 16] }
    }

    /// Compressed length of one page or less; it may exceed the page's own.
    ///
    /// # Panics
    /// If `page` is longer than a page.
    pub fn compressed_len(&mut self, page: &[u8]) -> usize {
        assert!(page.len() <= PAGE_SIZE, "one page at a time");
        let (source, target) = (page.as_ptr().cast(), self.out.as_mut_ptr().cast());
        let (source_len, target_len) = (page.len() as c_int, self.out.len() as c_int);
        // SAFETY: `source` and `target` come from two slices on the lines above, with their own lengths beside them,
        // both short enough for a c_int (the assertion, and `new`); they are distinct because one is borrowed
        // exclusively. lz4 reads no more than `source_len` bytes and writes no more than `target_len`.
        let len = unsafe { lz4_sys::LZ4_compress_default(source, target, source_len, target_len) };
        // 0 would mean that the target was too small, which `new` rules out.
        assert!(len > 0, "lz4 had room for the worst case");
        len.unsigned_abs() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_lz4_gives_them() {
        let mut codec = RawLz4::new();
        assert!(codec.compressed_len(&[0; PAGE_SIZE]) < 40);
        assert_eq!(codec.compressed_len(&[]), 1);
        let mut word = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            (word >> 32) as u8
        })
        .take(PAGE_SIZE)
        .collect();
        assert!(codec.compressed_len(&noise) > PAGE_SIZE);
    }
}
