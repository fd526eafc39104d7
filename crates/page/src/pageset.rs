//! A set of pages of one extent, as four words.

use crate::bits;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::ops::Range;

/// The longest extent.
pub const EXTENT_PAGES_MAX: u32 = 256;

const WORDS: usize = EXTENT_PAGES_MAX as usize / 64;

/// Page numbers 0 to 255 of an extent.
///
/// One thread at a time changes a set, which is for its owner to see to; the words are atomic so
/// that a stale reader reads an old set, not a data race.
#[derive(Debug, Default)]
pub struct PageSet([AtomicU64; WORDS]);

impl PageSet {
    /// The pages below 64 whose bits are set in `bits`.
    pub fn from_low_bits(bits: u64) -> Self {
        let set = PageSet::default();
        set.0[0].store(bits, Relaxed);
        set
    }

    /// Bit n for page n, of the pages below 64.
    pub fn low_bits(&self) -> u64 {
        self.0[0].load(Relaxed)
    }

    /// The words that `range` lies in, and its bits in each.
    #[inline]
    fn words(&self, range: Range<u32>) -> impl Iterator<Item = (&AtomicU64, u64)> {
        bits::masks(range).map(|(word, bits)| (&self.0[word], bits))
    }

    /// Adds `range`; returns how many of its pages were not in the set.
    #[inline]
    pub fn insert(&self, range: Range<u32>) -> u32 {
        let added = self.words(range).map(|(word, bits)| {
            let had = word.load(Relaxed);
            word.store(had | bits, Relaxed);
            (bits & !had).count_ones()
        });
        added.sum()
    }

    /// Takes `range` out; returns how many of its pages were in the set.
    #[inline]
    pub fn remove(&self, range: Range<u32>) -> u32 {
        let removed = self.words(range).map(|(word, bits)| {
            let had = word.load(Relaxed);
            word.store(had & !bits, Relaxed);
            (bits & had).count_ones()
        });
        removed.sum()
    }

    /// How many pages of `range` are in the set.
    #[inline]
    pub fn count(&self, range: Range<u32>) -> u32 {
        self.words(range).map(|(word, bits)| (word.load(Relaxed) & bits).count_ones()).sum()
    }

    /// Whether every page of `range` is in the set.
    #[inline]
    pub fn contains_all(&self, range: Range<u32>) -> bool {
        self.words(range).all(|(word, bits)| word.load(Relaxed) & bits == bits)
    }

    /// Whether a page of `range` is in the set.
    #[inline]
    pub fn contains_any(&self, range: Range<u32>) -> bool {
        bits::any(&self.0, range)
    }

    /// Whether `page` is in the set.
    #[inline]
    pub fn contains(&self, page: u32) -> bool {
        self.0[page as usize / 64].load(Relaxed) >> (page % 64) & 1 == 1
    }

    /// Number of pages in the set.
    pub fn len(&self) -> u32 {
        self.count(0..EXTENT_PAGES_MAX)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Makes the set empty.
    pub fn clear(&self) {
        for word in &self.0 {
            word.store(0, Relaxed);
        }
    }

    /// Makes the set equal to `other`.
    pub fn copy_from(&self, other: &PageSet) {
        for (word, from) in self.0.iter().zip(&other.0) {
            word.store(from.load(Relaxed), Relaxed);
        }
    }

    /// The first page from `page` on that is in the set.
    pub fn first_from(&self, page: u32) -> Option<u32> {
        bits::first(&self.0, page, true)
    }

    /// The first page of the range that is not in the set.
    pub fn first_missing(&self, range: Range<u32>) -> Option<u32> {
        bits::first(&self.0, range.start, false).filter(|&page| page < range.end)
    }

    /// The maximal runs of consecutive pages, lowest first.
    pub fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = bits::first(&self.0, at, true)?;
            at = bits::first(&self.0, start, false).unwrap_or(EXTENT_PAGES_MAX);
            Some(start..at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_across_words() {
        let set = PageSet::default();
        assert_eq!(set.insert(60..70), 10);
        assert_eq!(set.insert(62..130), 60);
        assert_eq!(set.len(), 70);
        assert!(set.contains_all(60..130) && !set.contains_all(59..130));
        assert_eq!((set.first_missing(60..130), set.first_missing(60..131)), (None, Some(130)));
        assert_eq!(set.first_missing(255..256), Some(255));
        assert_eq!(
            [0, 60, 64, 129, 130].map(|page| set.first_from(page)),
            [Some(60), Some(60), Some(64), Some(129), None]
        );
        assert_eq!(set.remove(64..65), 1);
        assert_eq!(set.remove(64..65), 0);
        assert_eq!(set.runs().collect::<Vec<_>>(), [60..64, 65..130]);
        assert_eq!(set.insert(0..256), 256 - 69);
        assert_eq!(set.runs().next(), Some(0..256));
        assert_eq!(PageSet::from_low_bits(1 << 63 | 5).runs().last(), Some(63..64));
        assert_eq!(PageSet::from_low_bits(0x123).low_bits(), 0x123);
        set.clear();
        assert!(set.is_empty() && set.runs().next().is_none());
    }

    #[test]
    fn against_a_model() {
        let set = PageSet::default();
        let mut model = [false; 256];
        let mut seed = testkit::seed(7);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let start = (seed >> 33) as u32 % 256;
            let end = start + (seed >> 43) as u32 % (257 - start);
            let range = start as usize..end as usize;
            let had = model[range.clone()].iter().filter(|&&bit| bit).count() as u32;
            assert_eq!(set.count(start..end), had);
            if seed >> 60 & 1 == 0 {
                assert_eq!(set.insert(start..end), end - start - had);
                model[range].fill(true);
            } else {
                assert_eq!(set.remove(start..end), had);
                model[range].fill(false);
            }
            assert_eq!(set.len() as usize, model.iter().filter(|&&bit| bit).count());
        }
    }
}
