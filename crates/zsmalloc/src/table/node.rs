//! Nodes contain the entries, and lie in the pool's arena.
//!
//! ```text
//!   packed  | head 8 | entries: 8 each | rows | keys: 2 each |      room for 2 to 96 entries
//!   dense   | entries: 8 each | rows | entries: ...      all 512 of a leaf, in order, line by line
//!   inner   | link | link | ...                              128 leaves of a span
//! ```
//! A chain is the list of nodes to which a link leads. A chain consists of packed nodes, which are
//! full except the last. A wide node may follow at the end. The wide node is a dense node in a
//! leaf's chain, and an inner node in a span's chain. A key is an entry's position in its span. If
//! two nodes of a chain have an entry with the same key, the entry in the later node is *hidden*. A
//! hidden entry is empty, and no look-up finds it.
//!
//! # Safety
//! - zs-W1: a link refers to a node of its table that was complete before the link was stored: all
//!   entries up to the count, and their rows, were written. The keys of these entries never change.
//! - zs-W2: a node is freed only when no link leads to it any more. Either no link ever led to the
//!   node (`discard`), or all readers that were counted when the last link was removed have left
//!   (`free_retired`). Later readers find no path to the node. `Nodes::repair` runs without
//!   readers.
//! - zs-W3: the last path to a node is removed only when all entries of the node that can be found
//!   are frozen. A locked entry is not frozen. A frozen entry can be locked only after the
//!   conversion was given up, which keeps the link. By zs-T3 of [`super`], no late thaw affects a
//!   later conversion. So a node is not freed while one of its entries is locked.
//! - zs-W4: links and heads of published nodes are changed only by the holder of the table's lock,
//!   or by `give_up` of a reader. A caller with the table's `&mut Retired` holds the table's lock.
#![allow(unsafe_code)]

use super::layout::{LEAF, LEAVES, NodeKind, NodeRef, position};
use super::link::{NodeLink, PackedHeader};
use super::locks::EntryRef;
use super::row::{Cells, Row, RowKind, RowValues};
use crate::entry::{Entry, Value};
use crate::sync::AtomicU32;
use std::marker::PhantomData;
use std::ptr::NonNull;

// SAFETY: a NodeRef is only an address. Threads share the node by the rules zs-W1 to zs-W4.
unsafe impl Send for NodeRef {}

pub(super) fn header(node: NodeRef) -> NonNull<PackedHeader> {
    debug_assert!(node.kind.is_packed());
    node.address.cast()
}

/// Writes entry `nth` of a node, its row and its key.
///
/// # Safety
/// The node has space for the entry and rows of this kind, and no other thread uses the place of
/// the entry.
pub(super) unsafe fn write(
    node: NodeRef,
    nth: usize,
    key: u16,
    value: Value,
    rows: (RowKind, RowValues),
) {
    let (kind, values) = rows;
    assert!(nth < node.kind.capacity());
    // SAFETY: the size of the node (`NodeKind::bytes`) includes this entry, its row and its key,
    // each aligned. The caller guarantees that no other thread uses the place.
    unsafe {
        let start = node.address;
        let (entry_at, row_at) = node.kind.places(kind, nth);
        start.add(entry_at).cast::<Entry>().write(Entry::new(value));
        let row = start.add(row_at).cast::<AtomicU32>();
        for (column, &value) in values[..kind.columns()].iter().enumerate() {
            row.add(column).write(AtomicU32::new(value));
        }
        if node.kind.is_packed() {
            start.add(node.kind.keys_at(kind)).cast::<u16>().add(nth).write(key);
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
        // SAFETY: a link refers to a complete node of its table (zs-W1). The node is not freed
        // while the caller of `new` is counted as a reader (zs-W2).
        self.link.node_ref().map(|node| unsafe { Node::new(node, self.row) })
    }
}

/// A node, borrowed from a counted reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'s> {
    address: NonNull<u8>,
    kind: NodeKind,
    row: RowKind,
    inside: PhantomData<&'s Entry>,
}

impl<'s> Node<'s> {
    /// # Safety
    /// The node is complete, its rows are of kind `row`, and it is not freed during `'s`.
    #[inline]
    pub(super) unsafe fn new(node: NodeRef, row: RowKind) -> Self {
        let NodeRef { address, kind } = node;
        Node { address, kind, row, inside: PhantomData }
    }

    pub(super) fn node_ref(self) -> NodeRef {
        NodeRef { address: self.address, kind: self.kind }
    }

    #[inline]
    pub(super) fn kind(self) -> NodeKind {
        self.kind
    }

    pub(super) fn header(self) -> Option<&'s PackedHeader> {
        // SAFETY: a packed node begins with its head (zs-W1), and is not freed under a reader
        // (zs-W2).
        self.kind.is_packed().then(|| unsafe { header(self.node_ref()).as_ref() })
    }

    /// Returns the keys of a packed node, and the next node of its chain. One load reads the number
    /// of keys and the address of the next node.
    pub(super) fn packed(self) -> (&'s [u16], Option<Self>) {
        let Some(head) = self.header() else { return (&[], None) };
        let (count, behind) = head.load();
        // SAFETY: keys below the count were written before the count, and do not change (zs-W1).
        let keys = unsafe {
            let keys = self.address.add(self.kind.keys_at(self.row));
            std::slice::from_raw_parts(keys.cast().as_ptr(), count)
        };
        // SAFETY: the node to which this node links is complete (zs-W1), and is not freed before
        // this node (zs-W2).
        (keys, behind.map(|node| unsafe { Node::new(node, self.row) }))
    }

    pub(super) fn packed_entries(self) -> impl Iterator<Item = (u16, EntryRef<'s>)> {
        let keys = self.packed().0.iter().enumerate();
        // SAFETY: the entry has a key, so `nth` is below the count.
        keys.map(move |(nth, &key)| (key, unsafe { self.entry_at(nth) }))
    }

    #[inline]
    pub(super) fn dense_entry(self, nth: usize) -> EntryRef<'s> {
        assert!(self.kind.is_dense());
        // SAFETY: a dense node has no count.
        unsafe { self.entry_at(nth) }
    }

    /// Returns entry `nth` of the node.
    ///
    /// # Safety
    /// If the node is packed, `nth` is below its count.
    #[inline]
    unsafe fn entry_at(self, nth: usize) -> EntryRef<'s> {
        assert!(nth < self.kind.capacity());
        let (entry_at, row_at) = self.kind.places(self.row, nth);
        // SAFETY: entry and row were written before they could be found (zs-W1), because the caller
        // found `nth` below a count. A row has 4 bytes per column. Entry and row are not freed
        // (zs-W2).
        unsafe {
            let row = self.address.add(row_at).cast::<AtomicU32>();
            let cells = match self.row {
                RowKind::Empty => Cells::Empty,
                RowKind::AccessTime => Cells::AccessTime(row.as_ref()),
                RowKind::Checksum => Cells::Checksum(row.as_ref()),
                RowKind::TimeAndSum => Cells::TimeAndSum(row.cast().as_ref()),
                RowKind::Generation => Cells::Generation(row.as_ref()),
            };
            EntryRef { entry: self.address.add(entry_at).cast().as_ref(), row: Row(cells) }
        }
    }

    #[inline]
    pub(super) fn leaf(self, leaf: usize) -> Chain<'s> {
        assert!(self.kind.is_inner() && leaf < LEAVES);
        // SAFETY: an inner node has `LEAVES` links (zs-W1) in its table, and is not freed (zs-W2).
        unsafe { Chain::new(self.address.cast::<NodeLink>().add(leaf).as_ref(), self.row) }
    }

    #[inline]
    pub(super) fn below(self, leaf: usize) -> Option<Self> {
        self.leaf(leaf).first()
    }

    pub(super) fn leaves(self) -> impl Iterator<Item = Self> {
        let leaves = if self.kind.is_inner() { LEAVES } else { 0 };
        (0..leaves).filter_map(move |leaf| self.below(leaf))
    }

    /// Returns this node and the later nodes of its chain.
    pub(super) fn nodes(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |part| part.packed().1)
    }

    /// Returns the wide node at the end of the chain, if it has one.
    pub(super) fn wide(self) -> Option<Self> {
        self.nodes().find(|part| !part.kind.is_packed())
    }

    /// Returns the wide node at the end of the chain if it is an inner node.
    pub(super) fn inner(self) -> Option<Self> {
        self.wide().filter(|wide| wide.kind.is_inner())
    }

    /// Returns whether the chain has several nodes.
    pub(super) fn is_chain(self) -> bool {
        self.packed().1.is_some()
    }

    /// Returns the entry of `key`, in this node or a later node of its chain.
    #[inline(always)]
    pub(super) fn find(self, key: u16) -> Option<EntryRef<'s>> {
        let node = if self.kind.is_inner() { self.below(key as usize / LEAF)? } else { self };
        if node.kind.is_dense() {
            Some(node.dense_entry(key as usize % LEAF))
        } else {
            node.find_packed(key)
        }
    }

    #[inline(never)]
    fn find_packed(self, key: u16) -> Option<EntryRef<'s>> {
        let (keys, behind) = self.packed();
        match position(keys, key) {
            // SAFETY: the entry has a key, so `nth` is below the count.
            Some(nth) => Some(unsafe { self.entry_at(nth) }),
            None => behind?.find(key),
        }
    }
}
