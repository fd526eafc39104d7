//! Nodes in the making, before a link names them.
//!
//! Safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::layout::{LEAF, LEAVES, NodeRef};
use super::link::{NodeLink, PackedHeader};
use super::node::{Node, header, write};
use super::row::{RowKind, RowValues};
use crate::entry::Value;

/// A node that no link has named yet.
#[derive(Debug)]
pub(super) struct Fresh {
    node: NodeRef,
    row: RowKind,
    /// Keys of a packed one.
    count: usize,
}

impl Fresh {
    /// Makes a node of memory: a packed one has no entries, an inner node no nodes, a dense one all
    /// entries, and they are empty with those `values`.
    ///
    /// # Safety
    /// The memory is one of a cache for nodes of that kind and such rows, and no one else's.
    pub(super) unsafe fn new(node: NodeRef, row: RowKind, values: RowValues) -> Self {
        let mut fresh = Fresh { node, row, count: 0 };
        // SAFETY: the memory has this kind's size and alignment, and no one else has it.
        unsafe {
            if node.kind.is_inner() {
                let chains = node.address.cast::<NodeLink>();
                (0..LEAVES).for_each(|nth| chains.add(nth).write(NodeLink::new()));
            } else if node.kind.is_packed() {
                header(node).write(PackedHeader::new());
            } else {
                (0..LEAF as u16).for_each(|key| {
                    fresh.put(key, Value::EMPTY, values);
                });
            }
        }
        fresh
    }

    pub(super) fn node_ref(&self) -> NodeRef {
        self.node
    }

    /// Gives it an entry; false where it has no room.
    pub(super) fn put(&mut self, key: u16, value: Value, values: RowValues) -> bool {
        let packed = self.node.kind.is_packed();
        let nth = if packed { self.count } else { key as usize % LEAF };
        if nth >= self.node.kind.capacity() {
            return false;
        }
        // SAFETY: there is room, and the node is this caller's alone.
        unsafe { write(self.node, nth, key, value, (self.row, values)) }
        if packed {
            self.count += 1;
            // SAFETY: `new` wrote the head, and `write` so many entries; no one else has the node.
            unsafe { header(self.node).as_ref().store(self.count, None) };
        }
        true
    }

    /// It as others will see it.
    pub(super) fn node(&self) -> Node<'_> {
        // SAFETY: `new` wrote the node, and it stays while this is borrowed.
        unsafe { Node::new(self.node, self.row) }
    }
}
