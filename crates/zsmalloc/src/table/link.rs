//! Links: references to nodes, in the directory, in inner nodes and in the heads of packed nodes.
//!
//! ```text
//!   link     | 0 ...              | address of the node, a multiple of 16  | kind |     0: none
//!   head     | count of keys: 16  | address of the node behind             | kind |
//!              bits 63 to 48        bits 47 to 4                             4 bits
//! ```
//! One load of a head returns both the number of keys and the node behind.
//!
//! # Safety
//! Readers follow links and heads, by the rules of [`node`](super::node). So functions that change
//! a link or head are unsafe. Only the holder of the table's lock calls them (zs-W4).
#![allow(unsafe_code)]

use super::layout::{ALIGN, LINK_BYTES, NodeKind, NodeRef};
use crate::sync::{AtomicLink, Ordering};
use std::ptr::{NonNull, null_mut};

const COUNT_SHIFT: u32 = 48;
/// The mask of the bits of a node's address. The system returns no higher addresses unless a
/// program requests them.
pub(super) const ADDRESS: usize = (1 << COUNT_SHIFT) - ALIGN;

#[inline]
fn from_raw(raw: *mut u8) -> Option<NodeRef> {
    let address = NonNull::new(raw.map_addr(|address| address & ADDRESS))?;
    let kind = match raw.addr() % ALIGN {
        0 => NodeKind::Packed,
        1 => NodeKind::Dense,
        _ => NodeKind::Inner,
    };
    Some(NodeRef { address, kind })
}

fn to_raw(node: Option<NodeRef>) -> *mut u8 {
    node.map_or(null_mut(), |NodeRef { address, kind }| {
        address.as_ptr().map_addr(|address| address | kind as usize)
    })
}

/// The head of a packed node.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct PackedHeader(AtomicLink);

impl PackedHeader {
    pub(super) fn new() -> Self {
        PackedHeader(AtomicLink::new(null_mut()))
    }

    /// Returns the number of keys, and the node behind this node.
    pub(super) fn load(&self) -> (usize, Option<NodeRef>) {
        let raw = self.0.load(Ordering::Acquire);
        (raw.addr() >> COUNT_SHIFT, from_raw(raw))
    }

    /// Publishes the number of keys and the node behind this node.
    ///
    /// # Safety
    /// The first `count` keys and places were written, and the node `behind` is complete (zs-W1).
    /// The caller holds the table's lock, or no other thread uses the node. A present entry that
    /// can be found through the head before the call can still be found after it.
    pub(super) unsafe fn store(&self, count: usize, behind: Option<NodeRef>) {
        let raw = to_raw(behind).map_addr(|address| address | count << COUNT_SHIFT);
        self.0.store(raw, Ordering::Release);
    }
}

/// A link to the first node of a span or a leaf.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct NodeLink(AtomicLink);

const _: () = assert!(size_of::<NodeLink>() == LINK_BYTES);
const _: () = assert!(size_of::<PackedHeader>() == LINK_BYTES);

impl NodeLink {
    pub(super) fn new() -> Self {
        NodeLink(AtomicLink::new(null_mut()))
    }

    pub(super) fn is_made(&self) -> bool {
        !self.0.load(Ordering::Acquire).is_null()
    }

    #[inline]
    pub(super) fn node_ref(&self) -> Option<NodeRef> {
        from_raw(self.0.load(Ordering::Acquire))
    }

    /// Makes `node` the first node of the chain.
    ///
    /// # Safety
    /// `node` is complete (zs-W1) and belongs to this table, and the caller gives up its ownership.
    /// The caller holds the table's lock. A present entry that can be found through the link before
    /// the call can still be found after it (zs-W3).
    pub(super) unsafe fn store(&self, node: Option<NodeRef>) {
        self.0.store(to_raw(node), Ordering::Release);
    }
}
