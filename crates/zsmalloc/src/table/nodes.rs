//! The memory of a table's nodes: how they are made, and given back.
//!
//! Safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::fresh::Fresh;
use super::layout::{ALIGN, NodeKind, NodeRef};
use super::link::ADDRESS;
use super::node::Node;
use super::retired::{Behind, Retired};
use super::row::{RowKind, RowValues};
use crate::Error;
use crate::meta::{Arena, Cache, CacheStat};
use page::Supply;
use page::fork::Step;
use std::sync::Arc;

/// The memory of a table's nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    /// By kind.
    caches: Box<[Cache]>,
    arena: Arc<Arena>,
    /// What the table's rows have.
    pub(super) row: RowKind,
}

impl Nodes {
    pub(super) fn new(arena: &Arc<Arena>, row: RowKind) -> Result<Self, Error> {
        let caches = NodeKind::all().map(|kind| Ok(Cache::new(arena, kind.bytes(row), ALIGN)?));
        let caches = caches.collect::<Result<_, Error>>()?;
        Ok(Nodes { caches, arena: arena.clone(), row })
    }

    /// Returns what may refuse memory for the table.
    pub(super) fn supply(&self) -> Option<&dyn Supply> {
        self.arena.supply()
    }

    fn cache(&self, kind: NodeKind) -> &Cache {
        &self.caches[kind.0 as usize]
    }

    /// Returns the bytes of a node.
    pub(super) fn bytes(&self, kind: NodeKind) -> usize {
        self.cache(kind).geometry().stride
    }

    /// Returns a node; a dense one's entries are empty, with those `values` beside them.
    pub(super) fn make(&self, kind: NodeKind, values: RowValues) -> Result<Fresh, Error> {
        let address = self.cache(kind).alloc()?;
        Ok(self.fresh(NodeRef { address, kind }, values))
    }

    /// Returns a node of the kind of `node`, in a lower place: as these move down, pages behind
    /// them become empty.
    pub(super) fn make_below(&self, node: Node<'_>, values: RowValues) -> Option<Fresh> {
        let NodeRef { address, kind } = node.node_ref();
        let address = self.cache(kind).alloc_before(address)?;
        Some(self.fresh(NodeRef { address, kind }, values))
    }

    fn fresh(&self, node: NodeRef, values: RowValues) -> Fresh {
        let address = node.address.addr().get();
        assert!(address & !ADDRESS == 0, "a node at {address:#x} has no link");
        // SAFETY: the cache for this kind and such rows gave this memory to no one else.
        unsafe { Fresh::new(node, self.row, values) }
    }

    /// Gives a node back.
    ///
    /// # Safety
    /// It is of this table, and no one uses it again (zs-W2).
    unsafe fn free(&self, node: NodeRef) {
        // SAFETY: as the caller says.
        let freed = unsafe { self.cache(node.kind).free(node.address) };
        debug_assert_eq!(freed, Ok(()), "a node is freed once, to its own cache");
    }

    /// Gives back a node that was not wanted after all, and names no others.
    pub(super) fn discard(&self, fresh: Fresh) {
        // SAFETY: no link has named it (zs-W2), or it would have been given up for that.
        unsafe { self.free(fresh.node_ref()) };
    }

    /// Gives back the first chain that was retired before `until`: all readers that could know of
    /// it have left.
    ///
    /// # Safety
    /// They have, and `retired` is of this table (zs-W2).
    pub(super) unsafe fn free_first(&self, retired: &mut Retired, until: u64) -> bool {
        let Some((first, behind)) = retired.take(until) else { return false };
        // SAFETY: it is freed below only, and what it names after it was read.
        let node = unsafe { Node::new(first, self.row) };
        let goes = |node: &Node<'_>| behind == Behind::Goes || node.kind().is_packed();
        // SAFETY: no link names the chain, and who found it before has left, as the caller says.
        let free = |node: Node<'_>| unsafe { self.free(node.node_ref()) };
        for part in node.nodes().filter(goes) {
            part.leaves().flat_map(Node::nodes).for_each(free);
            free(part);
        }
        true
    }

    /// Gives back the memory retained for the next nodes.
    pub(super) fn shrink(&self) {
        self.caches.iter().for_each(|cache| {
            cache.shrink();
        });
    }

    /// Returns the bytes of the pages the nodes lie in.
    #[cfg(all(test, not(loom)))]
    pub(super) fn page_bytes(&self) -> usize {
        self.caches.iter().map(|cache| cache.stat().pages).sum::<usize>() * page::page_size()
    }

    /// Holds the nodes' memory still over a fork.
    pub(super) fn at_fork(&self, step: Step) {
        self.caches.iter().for_each(|cache| cache.at_fork(step));
    }

    /// Repairs the nodes' memory in a child.
    ///
    /// # Safety
    /// It is a child that lost all other threads; `retired` is of this table, and its readers are
    /// forgotten (zs-W2).
    pub(super) unsafe fn repair(&self, retired: &mut Retired) {
        // SAFETY: as the caller says.
        unsafe {
            while self.free_first(retired, u64::MAX) {}
            self.caches.iter().for_each(|cache| cache.repair());
        }
    }

    /// Asserts the state of the caches, and that they hold so many nodes of each kind.
    pub(super) fn check(&self, counts: &[usize; ALIGN]) {
        for (cache, &count) in self.caches.iter().zip(counts) {
            cache.check();
            let CacheStat { active_objects, .. } = cache.stat();
            assert_eq!(active_objects, count, "nodes of {} bytes", cache.geometry().stride);
        }
    }
}
