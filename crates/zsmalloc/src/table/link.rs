//! Links refer to nodes. The directory, inner nodes and the heads of packed nodes have links.
//!
//! ```text
//!   link     | converting | 0 ...     | address of the node, a multiple of 16 | kind |     0: none
//!   head     | count of keys: 16 bits | address of the node behind            | kind |
//!              bit 63                   bits 47 to 4                            4 bits
//! ```
//! One load of a head returns both the number of keys and the next node of the chain.
//!
//! # Safety
//! Readers follow links and heads, by the rules of [`node`](super::node). So functions that change
//! a link or head are unsafe. The argument `alone` must belong to the table of the link or head
//! (zs-W4).
#![allow(unsafe_code)]

use super::layout::{ALIGN, LINK_BYTES, NodeKind, NodeRef};
use super::retired::{Behind, Retired};
use crate::sync::{AtomicLink, Ordering};
use std::ptr::{NonNull, null_mut};

const CONVERTING: usize = 1 << 63;
const COUNT_SHIFT: u32 = 48;
/// The mask of the bits of a node's address. The system returns no higher addresses unless a
/// program requests them.
pub(super) const ADDRESS: usize = (1 << COUNT_SHIFT) - ALIGN;

#[inline]
fn from_raw(raw: *mut u8) -> Option<NodeRef> {
    let address = NonNull::new(raw.map_addr(|address| address & ADDRESS))?;
    Some(NodeRef { address, kind: NodeKind((raw.addr() % ALIGN) as u8) })
}

fn to_raw(node: NodeRef) -> *mut u8 {
    node.address.as_ptr().map_addr(|address| address | node.kind.0 as usize)
}

fn converting(node: NodeRef) -> *mut u8 {
    to_raw(node).map_addr(|address| address | CONVERTING)
}

/// The head of a packed node.
#[derive(Debug)]
#[repr(C)]
pub(super) struct PackedHeader(AtomicLink);

impl PackedHeader {
    pub(super) fn new() -> Self {
        PackedHeader(AtomicLink::new(null_mut()))
    }

    /// Returns the number of keys, and the next node of the chain.
    pub(super) fn load(&self) -> (usize, Option<NodeRef>) {
        let raw = self.0.load(Ordering::Acquire);
        (raw.addr() >> COUNT_SHIFT, from_raw(raw))
    }

    /// Publishes the number of keys and the next node of the chain.
    ///
    /// # Safety
    /// `count` keys and entries were written, and the node `behind` is complete (zs-W1). No other
    /// thread changes the head. A node that can be found through the head before the call can still
    /// be found after the call.
    pub(super) unsafe fn store(&self, count: usize, behind: Option<NodeRef>) {
        let raw = behind.map_or(null_mut(), to_raw);
        self.0.store(raw.map_addr(|address| address | count << COUNT_SHIFT), Ordering::Release);
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

    /// Sets the link, which leads to no node yet, to the first node of its chain.
    ///
    /// # Safety
    /// The node is complete (zs-W1) and belongs to this table. The caller gives up the ownership of
    /// the node.
    pub(super) unsafe fn publish(&self, _alone: &mut Retired, node: NodeRef) {
        self.0.store(to_raw(node), Ordering::Release);
    }

    /// Marks the nodes from `node` on as being converted.
    ///
    /// # Safety
    /// `node` is the first node of the chain.
    pub(super) unsafe fn begin(&self, _alone: &mut Retired, node: NodeRef) {
        self.0.store(converting(node), Ordering::Release);
    }

    /// Gives up a conversion of the link's chain, so that its nodes are not replaced. Does nothing
    /// if no conversion is under way.
    pub(super) fn give_up(&self) {
        let raw = self.0.load(Ordering::Acquire);
        if raw.addr() & CONVERTING != 0 {
            let to = raw.map_addr(|address| address & !CONVERTING);
            // The exchange fails if the conversion has ended since the load.
            let _ = self.0.compare_exchange(raw, to, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Commits a conversion whose entries are all frozen, and sets the link to `to`. Returns false
    /// if a reader gave up the conversion. `behind` determines whether a wide node after the
    /// converted nodes is retired too.
    ///
    /// # Safety
    /// `begin` was called with `node`. Since then the caller froze all entries that can be found
    /// from `node` on, up to a wide node that is kept (zs-W3). `to` is that wide node, or a
    /// complete node (zs-W1) with the values of these entries. The caller gives up the ownership of
    /// a complete node.
    pub(super) unsafe fn install(
        &self,
        retired: &mut Retired,
        node: NodeRef,
        to: Option<NodeRef>,
        behind: Behind,
    ) -> bool {
        let to = to.map_or(null_mut(), to_raw);
        let swapped =
            self.0.compare_exchange(converting(node), to, Ordering::AcqRel, Ordering::Relaxed);
        if swapped.is_ok() {
            // SAFETY: only this link referred to the node, and its entries are frozen, as the
            // caller guarantees.
            unsafe { retired.add(node, behind) };
        }
        swapped.is_ok()
    }
}
