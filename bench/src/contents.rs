//! The contents that stores are filled with: numbered byte strings, either whole pages or pages
//! that the codec compressed.

use crate::census::{Census, Kind};
use crate::codec::RawCodec;
use measure::page::{PAGE_SIZE, same_filled};

use crate::Error;
use crate::aligned::AlignedBuf;

/// Byte strings by number.
pub trait Contents {
    /// Returns the number of byte strings.
    fn len(&self) -> u32;

    /// Returns byte string `nth`. An empty one is not stored.
    fn get(&self, nth: u32) -> &[u8];

    /// Returns true if there are no byte strings.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whole pages.
impl Contents for AlignedBuf {
    fn len(&self) -> u32 {
        ((**self).len() / PAGE_SIZE) as u32
    }

    fn get(&self, nth: u32) -> &[u8] {
        &self[nth as usize * PAGE_SIZE..][..PAGE_SIZE]
    }
}

/// Byte strings that lie one after the other in one buffer.
#[derive(Debug, Clone, Default)]
pub struct Blobs {
    bytes: Vec<u8>,
    /// The offset at which each byte string ends.
    ends: Vec<u64>,
}

impl Blobs {
    /// Compresses `pages` as a store does: the blob of a same-filled page is empty; that of any
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

    /// Returns the blobs with the lengths `lens`, which lie one after the other in `bytes`.
    pub fn from_parts(bytes: Vec<u8>, lens: impl Iterator<Item = u32>) -> Blobs {
        let ends = lens.scan(0, |end, len| {
            *end += u64::from(len);
            Some(*end)
        });
        Blobs { ends: ends.collect(), bytes }
    }

    /// Returns the first `count` blobs that are not empty. If there are fewer, they are repeated.
    pub fn taken(&self, count: u32) -> Blobs {
        let mut taken = Blobs::default();
        let filled = (0..self.len()).filter(|&nth| !self.get(nth).is_empty());
        filled.cycle().take(count as usize).for_each(|nth| taken.push(self.get(nth)));
        taken
    }

    /// Returns the blobs that are not empty.
    pub fn filled(&self) -> Blobs {
        let count = (0..self.len()).filter(|&nth| !self.get(nth).is_empty()).count();
        self.taken(count as u32)
    }

    /// Appends a blob.
    pub fn push(&mut self, blob: &[u8]) {
        self.bytes.extend_from_slice(blob);
        self.ends.push(self.bytes.len() as u64);
    }

    /// Returns all bytes, in the order of the blobs' numbers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the kind of the page that [`of_pages`](Self::of_pages) compressed to blob `nth`.
    pub fn kind(&self, nth: u32) -> Kind {
        match self.get(nth).len() {
            0 => Kind::SameFilled,
            PAGE_SIZE => Kind::Incompressible,
            len => Kind::Compressible(len),
        }
    }

    /// Returns the census of the pages whose blobs have the numbers `numbers`.
    pub fn census(&self, numbers: impl Iterator<Item = u32>) -> Census {
        let mut census = Census::default();
        numbers.for_each(|nth| census.add(self.kind(nth)));
        census
    }
}

impl Contents for Blobs {
    fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    fn get(&self, nth: u32) -> &[u8] {
        let nth = nth as usize;
        let start = if nth == 0 { 0 } else { self.ends[nth - 1] };
        &self.bytes[start as usize..self.ends[nth] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_what_a_census_counts() {
        let mut pages = AlignedBuf::zeroed(3 * PAGE_SIZE);
        pages[PAGE_SIZE..][..100].fill(7);
        let mut rng = fastrand::Rng::with_seed(testkit::seed(1));
        rng.fill(&mut pages[2 * PAGE_SIZE..]);
        let blobs = Blobs::of_pages(&pages).unwrap();
        assert_eq!(blobs.census(0..blobs.len()), Census::of(&pages).unwrap());
        assert_eq!((blobs.get(0).len(), blobs.get(2)), (0, &pages[2 * PAGE_SIZE..]));
        assert_eq!(Contents::get(&pages, 2), blobs.get(2));
        let lens = (0..blobs.len()).map(|nth| blobs.get(nth).len() as u32);
        let again = Blobs::from_parts(blobs.bytes().to_vec(), lens);
        assert!((0..3).all(|nth| again.get(nth) == blobs.get(nth)));
        let taken = blobs.taken(3);
        assert_eq!(
            (taken.get(0), taken.get(1), taken.get(2)),
            (blobs.get(1), blobs.get(2), blobs.get(1))
        );
        assert_eq!(blobs.filled().len(), 2);
    }
}
