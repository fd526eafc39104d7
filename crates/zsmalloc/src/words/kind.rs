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
    pub(super) fn capacity(self) -> usize {
        CAPACITIES.get(self.0 as usize).copied().unwrap_or(LEAF)
    }

    pub(super) fn is_dense(self) -> bool {
        self == Kind::DENSE
    }

    pub(super) fn words_at(self) -> usize {
        if self.is_dense() { 0 } else { size_of::<Head>() }
    }

    pub(super) fn beside_at(self) -> usize {
        self.words_at() + self.capacity() * size_of::<Word>()
    }

    pub(super) fn keys_at<E>(self) -> usize {
        const { assert!(align_of::<E>() <= align_of::<Word>() && size_of::<E>().is_multiple_of(2)) }
        self.beside_at() + self.capacity() * size_of::<E>()
    }

    pub(super) fn bytes<E>(self) -> usize {
        let keys = if self.is_dense() { 0 } else { self.capacity() * size_of::<u16>() };
        self.keys_at::<E>() + keys
    }
}
