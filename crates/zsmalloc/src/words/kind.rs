//! What nodes there are, how many words they have room for, and where these lie in them.

use super::link::{Chain, Head};
use crate::word::Word;

/// Words of a leaf.
pub(crate) const LEAF: usize = if cfg!(loom) { 8 } else { 512 };
/// Leaves of a stem.
pub(super) const LEAVES: usize = if cfg!(loom) { 2 } else { 128 };
/// Words of a stem: as many as keys tell apart.
pub(super) const STEM: usize = LEAF * LEAVES;
const _: () = assert!(STEM <= 1 << 16);
/// Words that packed nodes have room for: for the small ones, what fills a multiple of 16 bytes.
#[cfg(not(loom))]
const CAPACITIES: [usize; 11] = [2, 4, 5, 7, 12, 16, 24, 32, 48, 64, 96];
#[cfg(loom)]
const CAPACITIES: [usize; 1] = [2];
/// Words the largest packed node has room for.
pub(super) const PACKED_MAX: usize = CAPACITIES[CAPACITIES.len() - 1];
/// A packed node made for so many words at most replaces a wide one: a few more don't undo that at once.
pub(super) const FEW: usize = if cfg!(loom) { 2 } else { 80 };
/// So many words of a leaf in its stem's packed nodes say that the leaf is being filled.
pub(super) const CROWD: usize = if cfg!(loom) { 2 } else { 8 };
/// A line of memory.
const LINE: usize = 64;
/// Nodes begin at multiples of this, which leaves bits of their addresses for a kind.
pub(super) const ALIGN: usize = 16;
const _: () = assert!(CAPACITIES.len() + 2 <= ALIGN);

/// How many words a node has room for: the place in `CAPACITIES`, or a wide one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub(super) u8);

/// What a chain of nodes is of: a stem, or this leaf of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Stem,
    Leaf(usize),
}

impl Level {
    /// The node that has a place for all words.
    pub(super) fn wide(self) -> Kind {
        match self {
            Level::Stem => Kind::BRANCH,
            Level::Leaf(_) => Kind::DENSE,
        }
    }

    /// What goes behind packed nodes with room for `room` words, which are full.
    pub(super) fn behind(self, room: usize) -> Kind {
        if room < FEW { Kind::packed(room / 2) } else { self.wide() }
    }
}

impl Kind {
    /// All words of a leaf.
    pub(super) const DENSE: Kind = Kind(CAPACITIES.len() as u8);
    /// A link per leaf of a stem.
    pub(super) const BRANCH: Kind = Kind(CAPACITIES.len() as u8 + 1);

    /// A chain's first node, where few words are expected.
    pub(super) fn first() -> Self {
        Kind::packed(4.min(PACKED_MAX))
    }

    /// The smallest packed node for `count` words, as far as there is one.
    pub(super) fn packed(count: usize) -> Self {
        Kind(CAPACITIES.partition_point(|&capacity| capacity < count.min(PACKED_MAX)) as u8)
    }

    /// The node that suits a leaf with `count` words.
    pub(super) fn for_leaf(count: usize) -> Self {
        if count > FEW { Kind::DENSE } else { Kind::packed(count) }
    }

    /// All there are.
    pub(super) fn all() -> impl Iterator<Item = Kind> {
        (0..=Kind::BRANCH.0).map(Kind)
    }

    /// Words it has room for, not counting those of other nodes.
    #[inline]
    pub(super) fn capacity(self) -> usize {
        let wide = if self.is_dense() { LEAF } else { 0 };
        CAPACITIES.get(self.0 as usize).copied().unwrap_or(wide)
    }

    #[inline]
    pub(super) fn is_dense(self) -> bool {
        self == Kind::DENSE
    }

    #[inline]
    pub(super) fn is_branch(self) -> bool {
        self == Kind::BRANCH
    }

    #[inline]
    pub(super) fn is_packed(self) -> bool {
        self.0 < Kind::DENSE.0
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

    /// Where the keys of a packed node lie.
    pub(super) fn keys_at<E>(self) -> usize {
        self.places::<E>(0).1 + self.capacity() * size_of::<E>()
    }

    pub(super) fn bytes<E>(self) -> usize {
        if self.is_dense() {
            LEAF.div_ceil(Self::per_line::<E>()) * LINE
        } else if self.is_branch() {
            LEAVES * size_of::<Chain<E>>()
        } else {
            self.keys_at::<E>() + self.capacity() * size_of::<u16>()
        }
    }
}
