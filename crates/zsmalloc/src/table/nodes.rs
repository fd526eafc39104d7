//! The memory of a table's nodes: their allocation and release.
//!
//! The safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::fresh::Fresh;
use super::layout::{ALIGN, NodeKind, NodeRef};
use super::link::ADDRESS;
use super::node::Node;
use super::retired::{Behind, Retired};
use super::row::{RowKind, RowValues};
use crate::Error;
use crate::meta::{Cache, CacheStat, MetadataArena};
use page::Supply;
use page::fork::Step;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Nodes {
    caches: Box<[Cache]>,
    arena: Arc<MetadataArena>,
    pub(super) row: RowKind,
}

impl Nodes {
    pub(super) fn new(arena: &Arc<MetadataArena>, row: RowKind) -> Result<Self, Error> {
        let caches = NodeKind::all().map(|kind| Ok(Cache::new(arena, kind.bytes(row), ALIGN)?));
        let caches = caches.collect::<Result<_, Error>>()?;
        Ok(Nodes { caches, arena: arena.clone(), row })
    }

    pub(super) fn supply(&self) -> Option<&dyn Supply> {
        self.arena.supply()
    }

    fn cache(&self, kind: NodeKind) -> &Cache {
        &self.caches[kind.0 as usize]
    }

    pub(super) fn bytes(&self, kind: NodeKind) -> usize {
        self.cache(kind).geometry().stride
    }

    /// Returns a new node. The entries of a dense node are empty, with the row `values`.
    pub(super) fn make(&self, kind: NodeKind, values: RowValues) -> Result<Fresh, Error> {
        let address = self.cache(kind).alloc()?;
        Ok(self.fresh(NodeRef { address, kind }, values))
    }

    /// Returns a new node of the kind of `node` at a lower address. If nodes move to lower
    /// addresses, pages at higher addresses become empty.
    pub(super) fn make_below(&self, node: Node<'_>, values: RowValues) -> Option<Fresh> {
        let NodeRef { address, kind } = node.node_ref();
        let address = self.cache(kind).alloc_before(address)?;
        Some(self.fresh(NodeRef { address, kind }, values))
    }

    fn fresh(&self, node: NodeRef, values: RowValues) -> Fresh {
        let address = node.address.addr().get();
        assert!(address & !ADDRESS == 0, "a node at {address:#x} has no link");
        // SAFETY: this thread has just allocated the memory from the cache for nodes of this kind
        // with rows of this kind.
        unsafe { Fresh::new(node, self.row, values) }
    }

    /// Frees a node.
    ///
    /// # Safety
    /// The node belongs to this table, and no thread uses it again (zs-W2).
    unsafe fn free(&self, node: NodeRef) {
        // SAFETY: guaranteed by the caller.
        let freed = unsafe { self.cache(node.kind).free(node.address) };
        debug_assert_eq!(freed, Ok(()), "a node is freed once, to its own cache");
    }

    /// Frees a node that was not used and has no links to other nodes.
    pub(super) fn discard(&self, fresh: Fresh) {
        // SAFETY: no link has referred to the node (zs-W2), because the owner of `fresh` has not
        // given up the ownership of the node.
        unsafe { self.free(fresh.node_ref()) };
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
        let goes = |node: &Node<'_>| behind == Behind::Goes || node.kind().is_packed();
        // SAFETY: no link leads to the chain, and the caller guarantees that the readers that found
        // it have left.
        let free = |node: Node<'_>| unsafe { self.free(node.node_ref()) };
        for part in node.nodes().filter(goes) {
            part.leaves().flat_map(Node::nodes).for_each(free);
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
    pub(super) fn check(&self, counts: &[usize; ALIGN]) {
        for (cache, &count) in self.caches.iter().zip(counts) {
            cache.check();
            let CacheStat { active_objects, .. } = cache.stat();
            assert_eq!(active_objects, count, "nodes of {} bytes", cache.geometry().stride);
        }
    }
}
