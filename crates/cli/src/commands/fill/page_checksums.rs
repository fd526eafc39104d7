//! Checksums of the stored pages, which distinguish a changed file from a fault of the device.
//!
//! Each page that is read back is compared with the file byte for byte. If the two differ, the
//! page's checksum shows whether the file or the device changed the data. A file can change while
//! its time and size do not, for example through a mapping, or in /proc.

use super::try_slice::many;
use crate::error::Error;
use measure::page::PAGE_SIZE;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The size of a page's checksum in bytes.
pub(crate) const CHECKSUM_BYTES: usize = size_of::<AtomicU32>();

#[derive(Debug)]
pub(crate) struct PageChecksums(Box<[AtomicU32]>);

impl PageChecksums {
    /// Allocates and touches the memory for `pages` pages.
    pub(crate) fn new(pages: u32) -> Result<Self, Error> {
        Ok(PageChecksums(many(pages as usize, || AtomicU32::new(1))?))
    }

    /// Records the checksums of the pages in `data`, beginning with page `first`.
    pub(crate) fn set(&self, first: u32, data: &[u8]) {
        for (sum, page) in self.0[first as usize..].iter().zip(data.chunks(PAGE_SIZE)) {
            sum.store(crc32fast::hash(page), Relaxed);
        }
    }

    /// Returns true if `data` has the recorded checksum of page `page`.
    pub(crate) fn is_stored(&self, page: u32, data: &[u8]) -> bool {
        self.0[page as usize].load(Relaxed) == crc32fast::hash(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_is_seen() {
        let checksums = PageChecksums::new(3).unwrap();
        let data: Vec<u8> = (0..2 * PAGE_SIZE).map(|at| (at / 7) as u8).collect();
        checksums.set(1, &data);
        assert!(
            checksums.is_stored(1, &data[..PAGE_SIZE])
                && checksums.is_stored(2, &data[PAGE_SIZE..])
        );
        assert!(
            !checksums.is_stored(2, &data[..PAGE_SIZE])
                && !checksums.is_stored(0, &data[..PAGE_SIZE])
        );
        for bit in 0..PAGE_SIZE * 8 {
            let mut page = data[..PAGE_SIZE].to_vec();
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(!checksums.is_stored(1, &page), "bit {bit}");
        }
    }
}
