//! The kinds of nodes, the number of entries that they can hold, and the layout of entries and
//! rows.

use super::policy::{CAPACITIES, REPACKED_ENTRIES_MAX};
use super::row::RowKind;
use crate::entry::Entry;
use crate::sync::{AtomicLink, AtomicU32};
use std::ptr::NonNull;

/// The number of entries in a leaf.
pub(crate) const LEAF: usize = if cfg!(loom) { 8 } else { 512 };
/// The number of leaves in a span.
pub(super) const LEAVES: usize = if cfg!(loom) { 2 } else { 128 };
/// The number of entries in a span, which is the number of different keys.
pub(super) const SPAN: usize = LEAF * LEAVES;
const _: () = assert!(SPAN <= 1 << 16);
/// The number of entries that the largest packed node can hold.
pub(super) const PACKED_MAX: usize = CAPACITIES[CAPACITIES.len() - 1];
/// The size in bytes of a link, or of the head of a packed node.
pub(super) const LINK_BYTES: usize = size_of::<AtomicLink>();
const LINE: usize = 64;
/// The alignment of nodes in bytes. The low bits of an aligned address are free to encode the kind.
pub(super) const ALIGN: usize = 16;
const _: () = assert!(CAPACITIES.len() + 2 <= ALIGN);

/// The kind of a node: an index into `CAPACITIES`, or one of the two wide kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeKind(pub(super) u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRef {
    pub(super) address: NonNull<u8>,
    pub(super) kind: NodeKind,
}

/// The level of a chain of nodes: a span, or the leaf with this number in its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Span,
    Leaf(usize),
}

impl Level {
    /// Returns the kind of node that has a place for each entry of this level.
    pub(super) fn wide(self) -> NodeKind {
        match self {
            Level::Span => NodeKind::INNER,
            Level::Leaf(_) => NodeKind::DENSE,
        }
    }

    /// Returns the kind of node to append to full packed nodes, which have space for `room` entries
    /// in total.
    pub(super) fn behind(self, room: usize) -> NodeKind {
        if room < REPACKED_ENTRIES_MAX { NodeKind::packed(room / 2) } else { self.wide() }
    }
}

impl NodeKind {
    /// The kind of a node with all entries of a leaf.
    pub(super) const DENSE: NodeKind = NodeKind(CAPACITIES.len() as u8);
    /// The kind of a node with a link for each leaf of a span.
    pub(super) const INNER: NodeKind = NodeKind(CAPACITIES.len() as u8 + 1);

    /// Returns the kind of a chain's first node, if few entries are expected.
    pub(super) fn first() -> Self {
        NodeKind::packed(4.min(PACKED_MAX))
    }

    /// Returns the kind of the smallest packed node for `count` entries, or of the largest packed
    /// node if `count` is larger.
    pub(super) fn packed(count: usize) -> Self {
        NodeKind(CAPACITIES.partition_point(|&capacity| capacity < count.min(PACKED_MAX)) as u8)
    }

    /// Returns the kind of node that suits a leaf with `count` entries.
    pub(super) fn for_leaf(count: usize) -> Self {
        if count > REPACKED_ENTRIES_MAX { NodeKind::DENSE } else { NodeKind::packed(count) }
    }

    pub(super) fn all() -> impl Iterator<Item = NodeKind> {
        (0..=NodeKind::INNER.0).map(NodeKind)
    }

    /// Returns the number of entries that a node itself can hold, not counting the nodes to which
    /// it links.
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

    /// Returns the offsets in bytes of entry `nth` and of its row in a node.
    #[inline]
    pub(super) fn places(self, row: RowKind, nth: usize) -> (usize, usize) {
        if self.is_dense() {
            // Each number of columns has its own arm, so that the divisions are by constants.
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

    /// Returns the offset in bytes of the keys in a packed node.
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

/// Returns the number of entries in a cache line of a dense node. The line also contains the rows
/// of these entries.
const fn per_line(columns: usize) -> usize {
    LINE / (size_of::<Entry>() + columns * size_of::<AtomicU32>())
}

/// Returns the offsets in bytes of entry `nth` and of its row in a dense node.
#[inline(always)]
fn in_line(columns: usize, nth: usize) -> (usize, usize) {
    let (line, nth) = (nth / per_line(columns), nth % per_line(columns));
    let entries = line * LINE;
    let rows = entries + per_line(columns) * size_of::<Entry>();
    (entries + nth * size_of::<Entry>(), rows + nth * columns * size_of::<AtomicU32>())
}

/// Returns the position of `key` among a packed node's keys. Compares eight keys at a time.
pub(super) fn position(keys: &[u16], key: u16) -> Option<usize> {
    let has = |chunk: &&[u16]| chunk.iter().fold(false, |found, &other| found | (other == key));
    let nth = keys.chunks(8).position(|chunk| has(&chunk))?;
    let at = keys[nth * 8..].iter().position(|&other| other == key)?;
    Some(nth * 8 + at)
}
