//! Nodes that are being created, before a link refers to them.
//!
//! The safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::layout::{LEAF, LEAVES, NodeRef};
use super::link::{NodeLink, PackedHeader};
use super::node::{Node, header, write};
use super::row::{RowKind, RowValues};
use crate::entry::Value;

/// A node to which no link refers yet.
#[derive(Debug)]
pub(super) struct Fresh {
    node: NodeRef,
    row: RowKind,
    /// The number of keys of a packed node.
    count: usize,
}

impl Fresh {
    /// Initializes the memory of a new node. A packed node initially has no entries, and an inner
    /// node has no links. A dense node has all entries, which are empty and have the row `values`.
    ///
    /// # Safety
    /// The memory is from a cache for nodes of this kind with rows of this kind. No other thread
    /// uses the memory.
    pub(super) unsafe fn new(node: NodeRef, row: RowKind, values: RowValues) -> Self {
        let mut fresh = Fresh { node, row, count: 0 };
        // SAFETY: the memory has this kind's size and alignment, and no other thread uses it.
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

    pub(super) fn put(&mut self, key: u16, value: Value, values: RowValues) -> bool {
        let packed = self.node.kind.is_packed();
        let nth = if packed { self.count } else { key as usize % LEAF };
        if nth >= self.node.kind.capacity() {
            return false;
        }
        // SAFETY: the node has space, and no other thread uses the node.
        unsafe { write(self.node, nth, key, value, (self.row, values)) }
        if packed {
            self.count += 1;
            // SAFETY: `new` wrote the head, and `write` wrote this number of entries. No other
            // thread uses the node.
            unsafe { header(self.node).as_ref().store(self.count, None) };
        }
        true
    }

    /// Returns the node as other threads will see it.
    pub(super) fn node(&self) -> Node<'_> {
        // SAFETY: `new` wrote the node, which is not freed while this value is borrowed.
        unsafe { Node::new(self.node, self.row) }
    }
}
