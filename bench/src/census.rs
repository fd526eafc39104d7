//! The composition of an input, and C, the fewest bytes in which a store can hold the input with
//! the raw codec.

use zcomp::Error;

use crate::codec::RawCodec;
use measure::page::PAGE_SIZE;

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The page repeats one 8-byte word, so no bytes are stored.
    SameFilled,
    /// The page is stored in this number of bytes.
    Compressible(usize),
    /// The codec does not shrink the page, so it is stored uncompressed.
    Incompressible,
}

impl Kind {
    /// Returns the kind of a page.
    pub fn of(page: &[u8], codec: &mut RawCodec) -> Result<Kind, Error> {
        Ok(match codec.stored_len(page)? {
            0 => Kind::SameFilled,
            len if len < page.len() => Kind::Compressible(len),
            _ => Kind::Incompressible,
        })
    }
}

/// The number of pages of each kind, and C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// The number of same-filled pages.
    pub same_filled: u64,
    /// The number of pages that the codec shrinks.
    pub compressible: u64,
    /// The number of pages that the codec does not shrink.
    pub incompressible: u64,
    /// C in bytes. Each page that is not same-filled adds its compressed length or its own length,
    /// whichever is smaller.
    pub stored_bytes: u64,
}

impl Census {
    /// Returns the census of whole pages.
    pub fn of(pages: &[u8]) -> Result<Census, Error> {
        let mut codec = RawCodec::lz4()?;
        let mut census = Census::default();
        for page in pages.chunks(PAGE_SIZE) {
            census.add(Kind::of(page, &mut codec)?);
        }
        Ok(census)
    }

    /// Counts one page of the kind `kind`.
    pub fn add(&mut self, kind: Kind) {
        match kind {
            Kind::SameFilled => self.same_filled += 1,
            Kind::Compressible(len) => {
                self.compressible += 1;
                self.stored_bytes += len as u64;
            }
            Kind::Incompressible => {
                self.incompressible += 1;
                self.stored_bytes += PAGE_SIZE as u64;
            }
        }
    }

    /// Returns the total number of pages.
    pub fn page_count(&self) -> u64 {
        self.same_filled + self.compressible + self.incompressible
    }

    /// Returns the percentage by which `used` bytes exceed C, or `None` if nothing is stored.
    pub fn overhead_percent(&self, used: u64) -> Option<f64> {
        let stored = self.stored_bytes as f64;
        (self.stored_bytes > 0).then(|| (used as f64 - stored) / stored * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_kept_apart() {
        let mut pages = vec![0; 3 * PAGE_SIZE];
        pages[PAGE_SIZE..][..100].fill(7);
        let mut word = 1_u64;
        for byte in &mut pages[2 * PAGE_SIZE..] {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (word >> 33) as u8;
        }
        let census = Census::of(&pages).unwrap();
        assert_eq!((census.same_filled, census.compressible, census.incompressible), (1, 1, 1));
        assert_eq!(census.page_count(), 3);
        assert!(census.stored_bytes > 4096 && census.stored_bytes < 4096 + 200);
        let overhead = census.overhead_percent(census.stored_bytes * 2).unwrap();
        assert!((overhead - 100.0).abs() < 1e-9);
        assert_eq!(Census::default().overhead_percent(4096), None);
    }
}
