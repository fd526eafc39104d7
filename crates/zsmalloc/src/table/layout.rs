//! The kinds of nodes, and the layout of entries, rows and keys in them.

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
/// The number of entries for which a packed node has room. With 4 entries, a node without rows has
/// exactly 48 bytes. If a device of 16 TiB holds 1 GiB at random offsets, its spans have 4 entries
/// on average: larger nodes would be half empty, and smaller nodes would need more links.
pub(super) const PACKED: usize = if cfg!(loom) { 2 } else { 4 };
/// The size in bytes of a link, or of the head of a packed node.
pub(super) const LINK_BYTES: usize = size_of::<AtomicLink>();
const LINE: usize = 64;
/// The alignment of nodes in bytes. The low bits of an aligned address are free to encode the kind.
pub(super) const ALIGN: usize = 16;

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum NodeKind {
    /// Up to `PACKED` entries, with any keys.
    Packed,
    /// All entries of a leaf.
    Dense,
    /// A link for each leaf of a span.
    Inner,
}

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
            Level::Span => NodeKind::Inner,
            Level::Leaf(_) => NodeKind::Dense,
        }
    }
}

impl NodeKind {
    pub(super) const ALL: [NodeKind; 3] = [NodeKind::Packed, NodeKind::Dense, NodeKind::Inner];

    /// Returns the number of entries for which a node itself has room, not counting the nodes to
    /// which it links.
    #[inline]
    pub(super) fn capacity(self) -> usize {
        match self {
            NodeKind::Packed => PACKED,
            NodeKind::Dense => LEAF,
            NodeKind::Inner => 0,
        }
    }

    /// Returns the offsets in bytes of entry `nth` and of its row in a node.
    #[inline]
    pub(super) fn places(self, row: RowKind, nth: usize) -> (usize, usize) {
        if self == NodeKind::Dense {
            // Each number of columns has its own arm, so that the divisions are by constants.
            match row.columns() {
                0 => in_line(0, nth),
                1 => in_line(1, nth),
                _ => in_line(2, nth),
            }
        } else {
            let rows = ENTRIES_AT + PACKED * size_of::<Entry>();
            (ENTRIES_AT + nth * size_of::<Entry>(), rows + nth * row.bytes())
        }
    }

    pub(super) fn bytes(self, row: RowKind) -> usize {
        match self {
            NodeKind::Packed => ENTRIES_AT + PACKED * (size_of::<Entry>() + row.bytes()),
            NodeKind::Dense => LEAF.div_ceil(per_line(row.columns())) * LINE,
            NodeKind::Inner => LEAVES * LINK_BYTES,
        }
    }
}

/// The offset in bytes of the keys in a packed node.
pub(super) const KEYS_AT: usize = LINK_BYTES;
/// The offset in bytes of the entries in a packed node.
const ENTRIES_AT: usize = (KEYS_AT + PACKED * size_of::<u16>()).next_multiple_of(8);

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
