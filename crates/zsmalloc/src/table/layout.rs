//! What nodes there are, how many entries they have room for, and where these lie in them.

use super::row::RowKind;
use crate::entry::Entry;
use crate::sync::{AtomicLink, AtomicU32};
use std::ptr::NonNull;

/// Entries of a leaf.
pub(crate) const LEAF: usize = if cfg!(loom) { 8 } else { 512 };
/// Leaves of a region.
pub(super) const LEAVES: usize = if cfg!(loom) { 2 } else { 128 };
/// Entries of a region: as many as keys tell apart.
pub(super) const REGION: usize = LEAF * LEAVES;
const _: () = assert!(REGION <= 1 << 16);
/// Entries that packed nodes have room for: for the small ones, what fills a multiple of 16 bytes.
#[cfg(not(loom))]
const CAPACITIES: [usize; 11] = [2, 4, 5, 7, 12, 16, 24, 32, 48, 64, 96];
#[cfg(loom)]
const CAPACITIES: [usize; 1] = [2];
/// Entries the largest packed node has room for.
pub(super) const PACKED_MAX: usize = CAPACITIES[CAPACITIES.len() - 1];
/// A packed node made for so many entries at most replaces a wide one: a few more don't undo that
/// at once.
pub(super) const FEW: usize = if cfg!(loom) { 2 } else { 80 };
/// So many entries of a leaf in its region's packed nodes say that the leaf is being filled.
pub(super) const CROWD: usize = if cfg!(loom) { 2 } else { 8 };
/// A link, or the head of a packed node.
pub(super) const LINK_BYTES: usize = size_of::<AtomicLink>();
/// A line of memory.
const LINE: usize = 64;
/// Nodes begin at multiples of this, which leaves bits of their addresses for a kind.
pub(super) const ALIGN: usize = 16;
const _: () = assert!(CAPACITIES.len() + 2 <= ALIGN);

/// How many entries a node has room for: the place in `CAPACITIES`, or a wide one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeKind(pub(super) u8);

/// A node by address and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRef {
    pub(super) address: NonNull<u8>,
    pub(super) kind: NodeKind,
}

/// What a chain of nodes is of: a region, or this leaf of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Region,
    Leaf(usize),
}

impl Level {
    /// Returns the node that has a place for all entries.
    pub(super) fn wide(self) -> NodeKind {
        match self {
            Level::Region => NodeKind::INNER,
            Level::Leaf(_) => NodeKind::DENSE,
        }
    }

    /// Returns what goes behind packed nodes with room for `room` entries, which are full.
    pub(super) fn behind(self, room: usize) -> NodeKind {
        if room < FEW { NodeKind::packed(room / 2) } else { self.wide() }
    }
}

impl NodeKind {
    /// All entries of a leaf.
    pub(super) const DENSE: NodeKind = NodeKind(CAPACITIES.len() as u8);
    /// A link per leaf of a region.
    pub(super) const INNER: NodeKind = NodeKind(CAPACITIES.len() as u8 + 1);

    /// Returns a chain's first node, where few entries are expected.
    pub(super) fn first() -> Self {
        NodeKind::packed(4.min(PACKED_MAX))
    }

    /// The smallest packed node for `count` entries, as far as there is one.
    pub(super) fn packed(count: usize) -> Self {
        NodeKind(CAPACITIES.partition_point(|&capacity| capacity < count.min(PACKED_MAX)) as u8)
    }

    /// The node that suits a leaf with `count` entries.
    pub(super) fn for_leaf(count: usize) -> Self {
        if count > FEW { NodeKind::DENSE } else { NodeKind::packed(count) }
    }

    /// Returns all there are.
    pub(super) fn all() -> impl Iterator<Item = NodeKind> {
        (0..=NodeKind::INNER.0).map(NodeKind)
    }

    /// Entries it has room for, not counting those of other nodes.
    #[inline]
    pub(super) fn capacity(self) -> usize {
        let wide = if self.is_dense() { LEAF } else { 0 };
        CAPACITIES.get(self.0 as usize).copied().unwrap_or(wide)
    }

    #[inline]
    pub(super) fn is_dense(self) -> bool {
        self == NodeKind::DENSE
    }

    #[inline]
    pub(super) fn is_inner(self) -> bool {
        self == NodeKind::INNER
    }

    #[inline]
    pub(super) fn is_packed(self) -> bool {
        self.0 < NodeKind::DENSE.0
    }

    /// Returns where entry `nth` lies in a node, and its row.
    #[inline]
    pub(super) fn places(self, row: RowKind, nth: usize) -> (usize, usize) {
        if self.is_dense() {
            // An arm each: constants are divided by.
            match row.columns() {
                0 => in_line(0, nth),
                1 => in_line(1, nth),
                _ => in_line(2, nth),
            }
        } else {
            let rows = LINK_BYTES + self.capacity() * size_of::<Entry>();
            (LINK_BYTES + nth * size_of::<Entry>(), rows + nth * row.bytes())
        }
    }

    /// Returns where the keys of a packed node lie.
    pub(super) fn keys_at(self, row: RowKind) -> usize {
        LINK_BYTES + self.capacity() * (size_of::<Entry>() + row.bytes())
    }

    pub(super) fn bytes(self, row: RowKind) -> usize {
        if self.is_dense() {
            LEAF.div_ceil(per_line(row.columns())) * LINE
        } else if self.is_inner() {
            LEAVES * LINK_BYTES
        } else {
            self.keys_at(row) + self.capacity() * size_of::<u16>()
        }
    }
}

/// Entries in a line of a dense node: an entry is looked up with its row.
const fn per_line(columns: usize) -> usize {
    LINE / (size_of::<Entry>() + columns * size_of::<AtomicU32>())
}

/// Returns where entry `nth` of a dense node lies, and its row.
#[inline(always)]
fn in_line(columns: usize, nth: usize) -> (usize, usize) {
    let (line, nth) = (nth / per_line(columns), nth % per_line(columns));
    let entries = line * LINE;
    let rows = entries + per_line(columns) * size_of::<Entry>();
    (entries + nth * size_of::<Entry>(), rows + nth * columns * size_of::<AtomicU32>())
}

/// Returns the place of `key` among a packed node's. Eight at a time, which is one comparison.
pub(super) fn position(keys: &[u16], key: u16) -> Option<usize> {
    let has = |chunk: &&[u16]| chunk.iter().fold(false, |found, &other| found | (other == key));
    let nth = keys.chunks(8).position(|chunk| has(&chunk))?;
    let at = keys[nth * 8..].iter().position(|&other| other == key)?;
    Some(nth * 8 + at)
}
