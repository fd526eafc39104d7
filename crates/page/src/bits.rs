//! Bits in words of 64: bit n is bit `n % 64` of word `n / 64`.

use crate::sync::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::ops::Range;

/// The bits of a word, for who looks at what was done before [`publish`] set them.
#[inline]
pub(crate) fn load_acquire(word: &AtomicU64) -> u64 {
    word.load(Acquire)
}

/// Sets or clears a bit, after what it says is so; whether it was set.
#[inline]
pub(crate) fn set_release(word: &AtomicU64, nth: u32, set: bool) -> bool {
    let bit = 1 << nth;
    let before = if set { word.fetch_or(bit, Release) } else { word.fetch_and(!bit, Release) };
    before & bit != 0
}

/// The words that `range` lies in, by number, and its bits in each.
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

/// Whether a bit of `range` is set.
#[inline]
pub fn any(words: &[AtomicU64], range: Range<u32>) -> bool {
    masks(range).any(|(word, bits)| words[word].load(Relaxed) & bits != 0)
}

/// The first bit from `from` on that is set, or that is not.
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
}
