//! How many words a node has room for, and where they lie in it.

use super::node::Head;
use crate::word::Word;

/// Words of a leaf.
pub(crate) const LEAF: usize = if cfg!(loom) { 8 } else { 512 };
/// Words that packed nodes have room for.
#[cfg(not(loom))]
const CAPACITIES: [usize; 7] = [8, 16, 24, 32, 48, 64, 96];
#[cfg(loom)]
const CAPACITIES: [usize; 1] = [2];
/// A packed node made for so many words at most, above it a dense one: a few more don't undo that at once.
const PACKED_MAX: usize = if cfg!(loom) { 2 } else { 80 };
/// A line of memory.
const LINE: usize = 64;
/// Nodes begin at multiples of this, which leaves bits of their addresses for a kind and a flag.
pub(super) const ALIGN: usize = 16;
pub(super) const KIND_SHIFT: u32 = 1;
const _: () = assert!(CAPACITIES.len() << KIND_SHIFT < ALIGN);

/// How many words a node has room for: the place in `CAPACITIES`, or that after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub(super) u8);

impl Kind {
    pub(super) const DENSE: Kind = Kind(CAPACITIES.len() as u8);
    pub(super) const SMALLEST: Kind = Kind(0);

    /// The smallest for `count` words.
    pub(super) fn for_words(count: usize) -> Self {
        let fit = CAPACITIES.partition_point(|&capacity| capacity < count) as u8;
        if count > PACKED_MAX { Kind::DENSE } else { Kind(fit) }
    }

    /// All there are.
    pub(super) fn all() -> impl Iterator<Item = Kind> {
        (0..=Kind::DENSE.0).map(Kind)
    }

    /// Words it has room for.
    #[inline]
    pub(super) fn capacity(self) -> usize {
        CAPACITIES.get(self.0 as usize).copied().unwrap_or(LEAF)
    }

    #[inline]
    pub(super) fn is_dense(self) -> bool {
        self == Kind::DENSE
    }

    /// Where word `nth` lies in a node, and what lies beside it.
    #[inline]
    pub(super) fn places<E>(self, nth: usize) -> (usize, usize) {
        const { assert!(align_of::<E>() <= align_of::<Word>() && size_of::<E>().is_multiple_of(2)) }
        if self.is_dense() {
            let (line, nth) = (nth / Self::per_line::<E>(), nth % Self::per_line::<E>());
            let words = line * LINE;
            let beside = words + Self::per_line::<E>() * size_of::<Word>();
            (words + nth * size_of::<Word>(), beside + nth * size_of::<E>())
        } else {
            let words = size_of::<Head>();
            let beside = words + self.capacity() * size_of::<Word>();
            (words + nth * size_of::<Word>(), beside + nth * size_of::<E>())
        }
    }

    /// Words in a line of a dense node: a word is looked up with what lies beside it.
    const fn per_line<E>() -> usize {
        LINE / (size_of::<Word>() + size_of::<E>())
    }

    pub(super) fn keys_at<E>(self) -> usize {
        self.places::<E>(0).1 + self.capacity() * size_of::<E>()
    }

    pub(super) fn bytes<E>(self) -> usize {
        if self.is_dense() {
            return LEAF.div_ceil(Self::per_line::<E>()) * LINE;
        }
        self.keys_at::<E>() + self.capacity() * size_of::<u16>()
    }
}
