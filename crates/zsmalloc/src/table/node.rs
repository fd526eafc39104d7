//! Nodes: the memory of entries, in the pool's arena.
//!
//! ```text
//!   packed  | head 8 | keys: 2 each | entries: 8 each | rows |     room for 4 entries
//!   dense   | entries: 8 each | rows | entries: ...      all 512 of a leaf, in order, line by line
//!   inner   | link | link | ...                              128 leaves of a span
//! ```
//! A chain is the list of nodes to which a link leads: packed nodes, and possibly a wide node at
//! the end. A wide node is a dense node for a leaf, and an inner node for a span. A key is an
//! entry's position in its span. The *path* of a key is the span's chain and, if it ends with an
//! inner node, the chain of the key's leaf. The nodes of a path may have several *places* for the
//! key, of which at most one is present (zs-T1).
//!
//! # Safety
//! - zs-W1: a link refers to a node of its table that was complete before the link was stored: all
//!   places below its count, and their rows, were written. Keys below the count never change.
//! - zs-W2: a node is freed only when no link leads to it any more. Either no link ever did, or all
//!   readers that were counted when the last link was removed have left (`free_retired`). Later
//!   readers find no path to the node. A child of fork has no readers (`Nodes::repair`).
//! - zs-W3: the last path to a node is removed only when all of its places are absent. A locked
//!   entry is present, and an absent place can't be locked. So a node is not freed while one of its
//!   entries is locked.
//! - zs-W4: only the holder of the table's lock changes links, heads of published nodes, and absent
//!   places. (A look-up may complete a move: zs-T2.)
#![allow(unsafe_code)]

use super::layout::{KEYS_AT, LEAF, LEAVES, NodeKind, NodeRef, PACKED};
use super::link::{NodeLink, PackedHeader};
use super::locks::EntryRef;
use super::row::{Cells, Row, RowKind, RowValues};
use crate::entry::Entry;
use crate::sync::AtomicU32;
use std::iter::successors;
use std::marker::PhantomData;

// SAFETY: a NodeRef is only an address; threads share the node by the rules zs-W1 to zs-W4.
unsafe impl Send for NodeRef {}

/// Writes place `nth` of a node, and the row of this place.
///
/// # Safety
/// The node has rows of this kind and room for the place. No other thread uses the place.
pub(super) unsafe fn write(node: NodeRef, nth: usize, entry: Entry, rows: (RowKind, RowValues)) {
    let (kind, values) = rows;
    assert!(nth < node.kind.capacity());
    let (entry_at, row_at) = node.kind.places(kind, nth);
    // SAFETY: `NodeKind::bytes` includes the entry and the row of this place, which are aligned.
    // The caller guarantees that no other thread uses the place.
    unsafe {
        node.address.add(entry_at).cast::<Entry>().write(entry);
        let row = node.address.add(row_at).cast::<AtomicU32>();
        for (column, &value) in values[..kind.columns()].iter().enumerate() {
            row.add(column).write(AtomicU32::new(value));
        }
    }
}

/// The link to a chain of nodes, borrowed from a counted reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain<'s> {
    link: &'s NodeLink,
    row: RowKind,
}

impl<'s> Chain<'s> {
    /// # Safety
    /// The link's nodes have rows of kind `row`. The link belongs to a table of which the caller is
    /// a reader during `'s`, or to a node that no other thread uses.
    #[inline(always)]
    pub(super) unsafe fn new(link: &'s NodeLink, row: RowKind) -> Self {
        Chain { link, row }
    }

    /// Returns the link, so that the caller can change it.
    pub(super) fn link(self) -> &'s NodeLink {
        self.link
    }

    #[inline(always)]
    pub(super) fn first(self) -> Option<Node<'s>> {
        // SAFETY: a link refers to a complete node of its table (zs-W1), which is not freed (zs-W2)
        // as long as the caller of `new` is counted as a reader.
        self.link.node_ref().map(|node| unsafe { Node::new(node, self.row) })
    }

    pub(super) fn nodes(self) -> impl Iterator<Item = Node<'s>> {
        self.first().into_iter().flat_map(Node::nodes)
    }

    /// Returns the wide node at the end of the chain, if it has one.
    pub(super) fn wide(self) -> Option<Node<'s>> {
        self.nodes().find(|node| node.kind() != NodeKind::Packed)
    }
}

/// A node, borrowed from a counted reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'s> {
    node: NodeRef,
    row: RowKind,
    inside: PhantomData<&'s Entry>,
}

impl<'s> Node<'s> {
    /// # Safety
    /// The node is complete, its rows are of kind `row`, and it is not freed during `'s`.
    #[inline]
    pub(super) unsafe fn new(node: NodeRef, row: RowKind) -> Self {
        Node { node, row, inside: PhantomData }
    }

    pub(super) fn node_ref(self) -> NodeRef {
        self.node
    }

    #[inline]
    pub(super) fn kind(self) -> NodeKind {
        self.node.kind
    }

    fn header(self) -> Option<&'s PackedHeader> {
        // SAFETY: a packed node begins with its head (zs-W1), and is not freed while a reader uses
        // it (zs-W2).
        (self.kind() == NodeKind::Packed).then(|| unsafe { self.node.address.cast().as_ref() })
    }

    /// Returns the keys of a packed node and the node behind it, which one load reads.
    pub(super) fn packed(self) -> (&'s [u16], Option<Self>) {
        let Some(head) = self.header() else { return (&[], None) };
        let (count, behind) = head.load();
        // SAFETY: keys below the count were written before the count, and do not change (zs-W1).
        let keys = unsafe {
            let keys = self.node.address.add(KEYS_AT);
            std::slice::from_raw_parts(keys.cast().as_ptr(), count)
        };
        // SAFETY: the node behind is complete (zs-W1), and not freed before this one (zs-W2).
        (keys, behind.map(|node| unsafe { Node::new(node, self.row) }))
    }

    /// Returns this node and the nodes behind it.
    pub(super) fn nodes(self) -> impl Iterator<Item = Self> {
        successors(Some(self), |node| node.packed().1)
    }

    /// Returns the nodes on the path of `key` from this node on.
    pub(super) fn path(self, key: u16) -> impl Iterator<Item = Self> {
        successors(Some(self), move |node| match node.kind() {
            NodeKind::Packed => node.packed().1,
            NodeKind::Dense => None,
            NodeKind::Inner => node.leaf(key as usize / LEAF).first(),
        })
    }

    /// Returns the node's place for `key`, if it has one.
    pub(super) fn place(self, key: u16) -> Option<EntryRef<'s>> {
        match self.kind() {
            NodeKind::Packed => {
                let nth = self.packed().0.iter().position(|&other| other == key)?;
                // SAFETY: the place has a key, so `nth` is below the count.
                Some(unsafe { self.place_at(nth) })
            }
            NodeKind::Dense => Some(self.dense_place(key as usize % LEAF)),
            NodeKind::Inner => None,
        }
    }

    /// Returns the places of a packed node, with their keys.
    pub(super) fn packed_places(self) -> impl Iterator<Item = (u16, EntryRef<'s>)> {
        let keys = self.packed().0.iter().enumerate();
        // SAFETY: the place has a key, so `nth` is below the count.
        keys.map(move |(nth, &key)| (key, unsafe { self.place_at(nth) }))
    }

    #[inline]
    pub(super) fn dense_place(self, nth: usize) -> EntryRef<'s> {
        assert!(self.kind() == NodeKind::Dense);
        // SAFETY: a dense node has no count.
        unsafe { self.place_at(nth) }
    }

    /// Returns place `nth` of the node.
    ///
    /// # Safety
    /// If the node is packed, `nth` is below its count.
    #[inline]
    unsafe fn place_at(self, nth: usize) -> EntryRef<'s> {
        assert!(nth < self.kind().capacity());
        let (entry_at, row_at) = self.kind().places(self.row, nth);
        // SAFETY: the entry and the row were written before readers could find them (zs-W1): in a
        // packed node, `nth` is below the count. A row has a word per column. The node is not freed
        // (zs-W2).
        unsafe {
            let row = self.node.address.add(row_at).cast::<AtomicU32>();
            let cells = match self.row {
                RowKind::Empty => Cells::Empty,
                RowKind::AccessTime => Cells::AccessTime(row.as_ref()),
                RowKind::Checksum => Cells::Checksum(row.as_ref()),
                RowKind::TimeAndSum => Cells::TimeAndSum(row.cast().as_ref()),
                RowKind::Generation => Cells::Generation(row.as_ref()),
            };
            EntryRef { entry: self.node.address.add(entry_at).cast().as_ref(), row: Row(cells) }
        }
    }

    #[inline]
    pub(super) fn leaf(self, leaf: usize) -> Chain<'s> {
        assert!(self.kind() == NodeKind::Inner && leaf < LEAVES);
        // SAFETY: an inner node has `LEAVES` links (zs-W1) of its table, and is not freed (zs-W2).
        unsafe { Chain::new(self.node.address.cast::<NodeLink>().add(leaf).as_ref(), self.row) }
    }

    /// Returns the leaves of an inner node that have nodes: their numbers and their chains.
    pub(super) fn leaves(self) -> impl Iterator<Item = (usize, Chain<'s>)> {
        let leaves = if self.kind() == NodeKind::Inner { LEAVES } else { 0 };
        let leaves = (0..leaves).map(move |leaf| (leaf, self.leaf(leaf)));
        leaves.filter(|(_, chain)| chain.link().is_made())
    }

    /// Adds an absent place for `key` to a packed node. No other place of the node has the key.
    /// Returns the place, or `None` if the node has no room.
    ///
    /// # Safety
    /// The caller holds the table's lock (zs-W4), or no other thread uses the node.
    pub(super) unsafe fn push(self, key: u16) -> Option<EntryRef<'s>> {
        let (count, behind) = self.header()?.load();
        if count == PACKED {
            return None;
        }
        // SAFETY: the node has room, no thread reads beyond the count, and no other thread changes
        // the head (zs-W4).
        unsafe {
            write(self.node, count, Entry::absent(), (self.row, RowValues::default()));
            self.node.address.add(KEYS_AT).cast::<u16>().add(count).write(key);
            self.header()?.store(count + 1, behind);
            Some(self.place_at(count))
        }
    }

    /// Makes `behind` the node behind this packed node.
    ///
    /// # Safety
    /// As for [`PackedHeader::store`]. The caller gives up the ownership of `behind`.
    pub(super) unsafe fn set_behind(self, behind: Option<NodeRef>) {
        if let Some(head) = self.header() {
            // SAFETY: the number of keys is unchanged; the caller guarantees the rest.
            unsafe { head.store(head.load().0, behind) };
        }
    }
}
