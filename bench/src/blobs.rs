//! The compressed forms of pages, indexed by page number.

use crate::census::{Census, Kind};
use crate::codec::RawCodec;
use measure::page::{PAGE_SIZE, same_filled};

use crate::Error;

/// Byte strings that lie one after the other in one buffer.
#[derive(Debug, Clone, Default)]
pub struct Blobs {
    bytes: Vec<u8>,
    /// The offset at which each byte string ends.
    ends: Vec<usize>,
}

impl Blobs {
    /// Compresses `pages` as a store does. The blob of a same-filled page is empty. The blob of any
    /// other page contains the output of lz4, or the page itself if lz4 does not shorten it.
    pub fn of_pages(pages: &[u8]) -> Result<Blobs, Error> {
        let mut codec = RawCodec::lz4()?;
        let mut blobs = Blobs::default();
        for page in pages.chunks_exact(PAGE_SIZE) {
            if same_filled(page).is_some() {
                blobs.push(&[]);
                continue;
            }
            match codec.compress(page)? {
                blob if blob.len() < PAGE_SIZE => blobs.push(blob),
                _ => blobs.push(page),
            }
        }
        Ok(blobs)
    }

    /// Appends a blob.
    pub fn push(&mut self, blob: &[u8]) {
        self.bytes.extend_from_slice(blob);
        self.ends.push(self.bytes.len());
    }

    /// Returns blob `nth`.
    pub fn get(&self, nth: usize) -> &[u8] {
        let start = if nth == 0 { 0 } else { self.ends[nth - 1] };
        &self.bytes[start..self.ends[nth]]
    }

    /// Returns the census of the pages with these numbers, which [`of_pages`](Self::of_pages) has
    /// compressed.
    pub fn census(&self, numbers: impl Iterator<Item = usize>) -> Census {
        let mut census = Census::default();
        numbers.for_each(|nth| {
            census.add(match self.get(nth).len() {
                0 => Kind::SameFilled,
                PAGE_SIZE => Kind::Incompressible,
                len => Kind::Compressible(len),
            });
        });
        census
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_what_a_census_counts() {
        let mut pages = vec![0; 3 * PAGE_SIZE];
        pages[PAGE_SIZE..][..100].fill(7);
        let mut rng = fastrand::Rng::with_seed(testkit::seed(1));
        rng.fill(&mut pages[2 * PAGE_SIZE..]);
        let blobs = Blobs::of_pages(&pages).unwrap();
        assert_eq!(blobs.census(0..3), Census::of(&pages).unwrap());
        assert_eq!((blobs.get(0).len(), blobs.get(2)), (0, &pages[2 * PAGE_SIZE..]));
    }
}
