//! The memory of a table's nodes: their allocation and release.
//!
//! The safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::layout::{ALIGN, LEAF, LEAVES, NodeKind, NodeRef};
use super::link::{ADDRESS, NodeLink, PackedHeader};
use super::node::{Node, write};
use super::retired::{Behind, Retired};
use super::row::{RowKind, RowValues};
use crate::Error;
use crate::entry::{Entry, Value};
use crate::meta::{Cache, CacheStat, MetadataArena};
use page::Supply;
use page::fork::Step;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Nodes {
    /// A cache for each kind of node.
    caches: [Cache; NodeKind::ALL.len()],
    arena: Arc<MetadataArena>,
    pub(super) row: RowKind,
}

impl Nodes {
    pub(super) fn new(arena: &Arc<MetadataArena>, row: RowKind) -> Result<Self, Error> {
        let cache = |kind: NodeKind| Cache::new(arena, kind.bytes(row), ALIGN);
        let [packed, dense, inner] = NodeKind::ALL.map(cache);
        Ok(Nodes { caches: [packed?, dense?, inner?], arena: arena.clone(), row })
    }

    pub(super) fn supply(&self) -> Option<&dyn Supply> {
        self.arena.supply()
    }

    fn cache(&self, kind: NodeKind) -> &Cache {
        &self.caches[kind as usize]
    }

    pub(super) fn bytes(&self, kind: NodeKind) -> usize {
        self.cache(kind).geometry().stride
    }

    /// Returns a new node. A new packed node has no places, and a new inner node has no leaves. All
    /// entries of a new dense node are empty, and their rows have the values `values`.
    pub(super) fn make(&self, kind: NodeKind, values: RowValues) -> Result<NodeRef, Error> {
        let address = self.cache(kind).alloc()?;
        let node = NodeRef { address, kind };
        let at = address.addr().get();
        assert!(at & !ADDRESS == 0, "a node at {at:#x} has no link");
        // SAFETY: this thread has just allocated the memory, which has this kind's size and
        // alignment, from the cache for nodes of this kind with these rows.
        unsafe {
            match kind {
                NodeKind::Packed => address.cast().write(PackedHeader::new()),
                NodeKind::Dense => (0..LEAF)
                    .for_each(|nth| write(node, nth, Entry::new(Value::EMPTY), (self.row, values))),
                NodeKind::Inner => {
                    let links = address.cast::<NodeLink>();
                    (0..LEAVES).for_each(|nth| links.add(nth).write(NodeLink::new()));
                }
            }
        }
        Ok(node)
    }

    /// Returns whether a new node of the same kind would be at a lower address than `node`. Moving
    /// nodes to lower addresses empties pages at higher addresses.
    pub(super) fn has_room_below(&self, node: NodeRef) -> bool {
        let cache = self.cache(node.kind);
        let Some(lower) = cache.alloc_before(node.address) else { return false };
        // SAFETY: this thread has just allocated the memory, and has not used it.
        let freed = unsafe { cache.free(lower) };
        freed.is_ok()
    }

    /// Frees a node.
    ///
    /// # Safety
    /// The node belongs to this table, and no thread uses it again (zs-W2).
    pub(super) unsafe fn free(&self, node: NodeRef) {
        // SAFETY: guaranteed by the caller.
        let freed = unsafe { self.cache(node.kind).free(node.address) };
        debug_assert_eq!(freed, Ok(()), "a node is freed once, to its own cache");
    }

    /// Frees the oldest retired chain, if it is among the first `until` chains ever retired.
    /// Returns whether a chain was freed.
    ///
    /// # Safety
    /// All readers that could have found the chain have left. `retired` belongs to this table
    /// (zs-W2).
    pub(super) unsafe fn free_first(&self, retired: &mut Retired, until: u64) -> bool {
        let Some((first, behind)) = retired.take(until) else { return false };
        // SAFETY: the node is freed only below, after its links to other nodes were read.
        let node = unsafe { Node::new(first, self.row) };
        let goes = |node: &Node<'_>| behind == Behind::Goes || node.kind() == NodeKind::Packed;
        // SAFETY: no link leads to the chain, and the caller guarantees that readers that found it
        // have left.
        let free = |node: Node<'_>| unsafe { self.free(node.node_ref()) };
        for part in node.nodes().filter(goes) {
            part.leaves().flat_map(|(_, chain)| chain.nodes()).for_each(free);
            free(part);
        }
        true
    }

    /// Releases the pages that are retained for the next nodes.
    pub(super) fn shrink(&self) {
        self.caches.iter().for_each(|cache| {
            cache.shrink();
        });
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn page_bytes(&self) -> usize {
        self.caches.iter().map(|cache| cache.stat().pages).sum::<usize>() * page::page_size()
    }

    /// Locks the nodes' memory before a fork, or unlocks it after the fork.
    pub(super) fn at_fork(&self, step: Step) {
        self.caches.iter().for_each(|cache| cache.at_fork(step));
    }

    /// Repairs the nodes' memory in a child of fork.
    ///
    /// # Safety
    /// The process is a child without the other threads of its parent. `retired` belongs to this
    /// table, whose counts of readers were reset (zs-W2).
    pub(super) unsafe fn repair(&self, retired: &mut Retired) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            while self.free_first(retired, u64::MAX) {}
            self.caches.iter().for_each(|cache| cache.repair());
        }
    }

    /// Asserts that the caches are consistent, and that they contain `counts` nodes of each kind.
    pub(super) fn check(&self, counts: &[usize; NodeKind::ALL.len()]) {
        for (cache, &count) in self.caches.iter().zip(counts) {
            cache.check();
            let CacheStat { active_objects, .. } = cache.stat();
            assert_eq!(active_objects, count, "nodes of {} bytes", cache.geometry().stride);
        }
    }
}
