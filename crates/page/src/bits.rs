//! Bits in words of 64 bits, and sets of an extent's pages. Bit n of a set is bit `n % 64` of word
//! `n / 64`.

use crate::sync::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::ops::Range;

/// The longest extent, in pages.
pub const EXTENT_PAGES_MAX: u32 = 256;

/// The number of 64-bit words of a set that has space for every page of the longest extent.
pub(crate) const WORDS: usize = EXTENT_PAGES_MAX as usize / 64;

/// Loads a word that [`set_release`] changes. If the result includes a change that `set_release`
/// made, the caller also sees the writes that preceded the call of `set_release`.
#[inline]
pub(crate) fn load_acquire(word: &AtomicU64) -> u64 {
    word.load(Acquire)
}

/// Sets or clears bit `nth` with release order. Before the call, the caller has made the writes
/// that the new value of the bit announces. Returns whether the bit was set before the call.
#[inline]
pub(crate) fn set_release(word: &AtomicU64, nth: u32, set: bool) -> bool {
    let bit = 1 << nth;
    let before = if set { word.fetch_or(bit, Release) } else { word.fetch_and(!bit, Release) };
    before & bit != 0
}

/// Returns, for each word that contains bits of `range`, the word's number and a mask of those
/// bits.
#[inline]
pub fn masks(range: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let end = range.end.min((at | 63) + 1);
        let bits = (u64::MAX >> (64 - (end - at))) << (at % 64);
        let word = at as usize / 64;
        at = end;
        Some((word, bits))
    })
}

/// Returns whether a bit of `range` is set.
#[inline]
pub fn any(words: &[AtomicU64], range: Range<u32>) -> bool {
    masks(range).any(|(word, bits)| words[word].load(Relaxed) & bits != 0)
}

/// Returns the number of the first bit at or after `from` whose value is `set`.
#[inline]
pub fn first(words: &[AtomicU64], from: u32, set: bool) -> Option<u32> {
    let flip = if set { 0 } else { u64::MAX };
    let mut ignored = (1 << (from % 64)) - 1;
    for (word, bits) in words.iter().enumerate().skip(from as usize / 64) {
        let wanted = (bits.load(Relaxed) ^ flip) & !ignored;
        ignored = 0;
        if wanted != 0 {
            return Some(word as u32 * 64 + wanted.trailing_zeros());
        }
    }
    None
}

/// A set of pages of an extent. Page numbers are below 64 * `W`.
///
/// Only the exclusive owner of a set can change it. The sets of a [`Residency`] change only through
/// the residency. The words are atomic, so a stale reader that reads an old set causes no data
/// race.
#[derive(Debug)]
pub struct PageSet<const W: usize = WORDS>(pub(crate) [AtomicU64; W]);

impl<const W: usize> Default for PageSet<W> {
    fn default() -> Self {
        PageSet(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const W: usize> Clone for PageSet<W> {
    fn clone(&self) -> Self {
        PageSet(std::array::from_fn(|word| AtomicU64::new(self.0[word].load(Relaxed))))
    }
}

impl PageSet {
    /// Returns the set of the pages below 64 whose bits are set in `bits`.
    pub fn from_low_bits(bits: u64) -> Self {
        let set = PageSet::default();
        set.0[0].store(bits, Relaxed);
        set
    }
}

impl<const W: usize> PageSet<W> {
    /// Returns the pages of the set below 64 as a word: bit n stands for page n.
    pub fn low_bits(&self) -> u64 {
        self.0[0].load(Relaxed)
    }

    /// Returns each word that contains bits of `range`, and a mask of those bits.
    #[inline]
    fn words(&self, range: Range<u32>) -> impl Iterator<Item = (&AtomicU64, u64)> {
        masks(range).map(|(word, bits)| (&self.0[word], bits))
    }

    /// Adds the pages of `range`. Returns the number of pages that were added.
    #[inline]
    pub fn insert(&mut self, range: Range<u32>) -> u32 {
        self.set(range)
    }

    /// Does the same as [`insert`](Self::insert), through a shared reference. Only one thread at a
    /// time is allowed to change the set.
    #[inline]
    pub(crate) fn set(&self, range: Range<u32>) -> u32 {
        let added = self.words(range).map(|(word, bits)| {
            let had = word.load(Relaxed);
            word.store(had | bits, Relaxed);
            (bits & !had).count_ones()
        });
        added.sum()
    }

    /// Removes the pages of `range`. Returns the number of pages that were removed. Only one thread
    /// at a time is allowed to change the set.
    #[inline]
    pub(crate) fn unset(&self, range: Range<u32>) -> u32 {
        let removed = self.words(range).map(|(word, bits)| {
            let had = word.load(Relaxed);
            word.store(had & !bits, Relaxed);
            (bits & had).count_ones()
        });
        removed.sum()
    }

    /// Returns the number of pages of `range` that are in the set.
    #[inline]
    pub fn count(&self, range: Range<u32>) -> u32 {
        self.words(range).map(|(word, bits)| (word.load(Relaxed) & bits).count_ones()).sum()
    }

    /// Returns whether every page of `range` is in the set.
    #[inline]
    pub fn contains_all(&self, range: Range<u32>) -> bool {
        self.words(range).all(|(word, bits)| word.load(Relaxed) & bits == bits)
    }

    /// Returns whether any page of `range` is in the set.
    #[inline]
    pub fn contains_any(&self, range: Range<u32>) -> bool {
        any(&self.0, range)
    }

    /// Returns whether `page` is in the set.
    #[inline]
    pub fn contains(&self, page: u32) -> bool {
        self.0[page as usize / 64].load(Relaxed) >> (page % 64) & 1 == 1
    }

    /// Returns the number of pages in the set.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.load(Relaxed).count_ones()).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Makes the set empty.
    pub fn clear(&mut self) {
        self.unset_all();
    }

    pub(crate) fn unset_all(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Returns the first page at or after `page` that is in the set.
    pub fn first_from(&self, page: u32) -> Option<u32> {
        first(&self.0, page, true)
    }

    /// Returns the first page of `range` that is not in the set.
    pub fn first_missing(&self, range: Range<u32>) -> Option<u32> {
        first(&self.0, range.start, false).filter(|&page| page < range.end)
    }

    /// Returns the longest possible runs of consecutive pages in the set, lowest first.
    pub fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = first(&self.0, at, true)?;
            at = first(&self.0, start, false).unwrap_or(W as u32 * 64);
            Some(start..at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_words() {
        let cut = |range| masks(range).collect::<Vec<_>>();
        assert_eq!(cut(5..5), []);
        assert_eq!(cut(60..66), [(0, 0xf << 60), (1, 3)]);
        assert_eq!(cut(64..192), [(1, u64::MAX), (2, u64::MAX)]);
    }

    #[test]
    fn the_first_bit_is_found() {
        let words = [1 << 3 | 1 << 63, 0, 1].map(AtomicU64::new);
        assert_eq!(first(&words, 0, true), Some(3));
        assert_eq!(first(&words, 4, true), Some(63));
        assert_eq!(first(&words, 64, true), Some(128));
        assert_eq!(first(&words, 129, true), None);
        assert_eq!((first(&words, 3, false), first(&words, 63, false)), (Some(4), Some(64)));
        assert_eq!(first(&words, 192, false), None);
        assert!(any(&words, 60..66) && !any(&words, 64..128) && !any(&words, 4..63));
    }

    #[test]
    fn ranges_across_words() {
        let mut set = <PageSet>::default();
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
        assert_eq!(set.unset(64..65), 1);
        assert_eq!(set.unset(64..65), 0);
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
        let mut set = <PageSet>::default();
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
                assert_eq!(set.unset(start..end), had);
                model[range].fill(false);
            }
            assert_eq!(set.len() as usize, model.iter().filter(|&&bit| bit).count());
        }
    }
}
