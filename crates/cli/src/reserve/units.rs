//! A bitmap of the reserve's taken units. An allocation takes the lowest run of free units that is
//! long enough.
//!
//! ```text
//!   words  | bit per unit, 1: taken | ... | units beyond the last: 1 |
//! ```

use std::ops::Range;

const BITS: usize = u64::BITS as usize;

/// The bitmap of the reserve's units, in which the bit of a taken unit is 1.
#[derive(Debug)]
pub(super) struct Units<'m> {
    words: &'m mut [u64],
    pub(super) taken: usize,
    /// All units below this index are taken.
    lowest: usize,
}

impl<'m> Units<'m> {
    /// Returns a bitmap for zero units.
    pub(super) const fn none() -> Self {
        Units { words: &mut [], taken: 0, lowest: 0 }
    }

    /// Returns a bitmap in which each bit of `words` represents a free unit.
    pub(super) fn new(words: &'m mut [u64]) -> Self {
        words.fill(0);
        Units { words, taken: 0, lowest: 0 }
    }

    /// Takes `count` consecutive units, at least 1, that begin at a multiple of `align`. Returns
    /// the index of the first taken unit.
    pub(super) fn take(&mut self, count: usize, align: usize) -> Option<usize> {
        debug_assert!(count > 0 && align.is_power_of_two());
        let mut at = self.lowest.next_multiple_of(align);
        while at.checked_add(count)? <= self.words.len() * BITS {
            match self.last_taken(at..at + count) {
                Some(taken) => at = (taken + 1).next_multiple_of(align),
                None => {
                    self.set(at..at + count);
                    if at == self.lowest {
                        self.lowest = at + count;
                    }
                    return Some(at);
                }
            }
        }
        None
    }

    /// Frees the taken units in `range`.
    pub(super) fn give(&mut self, range: Range<usize>) {
        self.taken -= range.len();
        self.lowest = self.lowest.min(range.start);
        for (word, mask) in masks(range) {
            debug_assert_eq!(self.words[word] & mask, mask, "what is free is given back");
            self.words[word] &= !mask;
        }
    }

    fn set(&mut self, range: Range<usize>) {
        self.taken += range.len();
        masks(range).for_each(|(word, mask)| self.words[word] |= mask);
    }

    /// Returns the last taken unit in a range.
    fn last_taken(&self, range: Range<usize>) -> Option<usize> {
        let taken = masks(range).filter_map(|(word, mask)| {
            let bits = self.words[word] & mask;
            (bits != 0).then(|| word * BITS + (BITS - 1 - bits.leading_zeros() as usize))
        });
        taken.last()
    }

    /// Asserts that `taken` matches the bits, and that no unit below `lowest` is free.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let bits: usize = self.words.iter().map(|word| word.count_ones() as usize).sum();
        assert_eq!(self.taken, bits, "units that are taken");
        assert!((0..self.lowest).all(|unit| self.last_taken(unit..unit + 1).is_some()));
    }
}

/// Returns, for each word that holds bits of `range`, the word's index and the mask of these bits.
fn masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let (word, bit) = (at / BITS, at % BITS);
        let len = (BITS - bit).min(range.end.checked_sub(at)?);
        if len == 0 {
            return None;
        }
        at += len;
        Some((word, (u64::MAX >> (BITS - len)) << bit))
    })
}
