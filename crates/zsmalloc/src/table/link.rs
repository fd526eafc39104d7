//! Links: how nodes are named, in the directory, in inner nodes and behind packed nodes.
//!
//! ```text
//!   link     | converting | 0 ...     | address of the node, a multiple of 16 | kind |     0: none
//!   head     | count of keys: 16 bits | address of the node behind            | kind |
//!              bit 63                   bits 47 to 4                            4 bits
//! ```
//! One load of a head tells how many keys there are, and what was behind them at that moment.
//!
//! # Safety
//! Who is inside goes wherever links and heads lead, by the rules of [`node`](super::node): so what
//! changes them is unsafe. `alone` is that of the table (zs-W4).
#![allow(unsafe_code)]

use super::layout::{ALIGN, LINK_BYTES, NodeKind, NodeRef};
use super::retired::{Behind, Retired};
use crate::sync::{AtomicLink, Ordering};
use std::ptr::{NonNull, null_mut};

const CONVERTING: usize = 1 << 63;
const COUNT_SHIFT: u32 = 48;
/// Bits of a node's address: the system gives no others unless it is asked to.
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

/// The beginning of a packed node.
#[derive(Debug)]
#[repr(C)]
pub(super) struct PackedHeader(AtomicLink);

impl PackedHeader {
    pub(super) fn new() -> Self {
        PackedHeader(AtomicLink::new(null_mut()))
    }

    /// Returns how many keys there are, and the node behind.
    pub(super) fn load(&self) -> (usize, Option<NodeRef>) {
        let raw = self.0.load(Ordering::Acquire);
        (raw.addr() >> COUNT_SHIFT, from_raw(raw))
    }

    /// Says that there are so many keys, and that node behind.
    ///
    /// # Safety
    /// So many keys and entries were written, and that node is whole (zs-W1). No one else changes
    /// the head, and who could find the node before it still can.
    pub(super) unsafe fn store(&self, count: usize, behind: Option<NodeRef>) {
        let raw = behind.map_or(null_mut(), to_raw);
        self.0.store(raw.map_addr(|address| address | count << COUNT_SHIFT), Ordering::Release);
    }
}

/// What names the first node of a region or a leaf.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct NodeLink(AtomicLink);

const _: () = assert!(size_of::<NodeLink>() == LINK_BYTES);
const _: () = assert!(size_of::<PackedHeader>() == LINK_BYTES);

impl NodeLink {
    pub(super) fn new() -> Self {
        NodeLink(AtomicLink::new(null_mut()))
    }

    /// Returns whether there is a node.
    pub(super) fn is_made(&self) -> bool {
        !self.0.load(Ordering::Acquire).is_null()
    }

    /// Returns the first node's name.
    #[inline]
    pub(super) fn node_ref(&self) -> Option<NodeRef> {
        from_raw(self.0.load(Ordering::Acquire))
    }

    /// Names the first node of a chain without nodes.
    ///
    /// # Safety
    /// The node is whole (zs-W1), of this table, and given up by who made it.
    pub(super) unsafe fn publish(&self, _alone: &mut Retired, node: NodeRef) {
        self.0.store(to_raw(node), Ordering::Release);
    }

    /// Says that the nodes from `node` on are being converted.
    ///
    /// # Safety
    /// `node` is the first of the chain.
    pub(super) unsafe fn begin(&self, _alone: &mut Retired, node: NodeRef) {
        self.0.store(converting(node), Ordering::Release);
    }

    /// Ends a conversion, if there is one: the nodes stay.
    pub(super) fn give_up(&self) {
        let raw = self.0.load(Ordering::Acquire);
        if raw.addr() & CONVERTING != 0 {
            let to = raw.map_addr(|address| address & !CONVERTING);
            // Refused where it is over.
            let _ = self.0.compare_exchange(raw, to, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Ends a conversion whose entries are all frozen: `to` is named from now on, unless a reader
    /// gave the conversion up. `behind` says what becomes of a wide node behind those that were
    /// converted.
    ///
    /// # Safety
    /// `begin` was told of `node`, and since then all entries that can be found from there on, up
    /// to a wide node that stays, were frozen by the caller (zs-W3). `to` is whole (zs-W1), has
    /// what they say, and is given up by who made it; or it is that wide node.
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
            // SAFETY: the link alone named it, and its entries are frozen, as the caller says.
            unsafe { retired.add(node, behind) };
        }
        swapped.is_ok()
    }
}
