//! The memory of a table's nodes: how they are made, and given back.
//!
//! Safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::layout::{ALIGN, LEAF, LEAVES, NodeKind};
use super::link::{ADDRESS, NodeLink, NodeRef, PackedHeader};
use super::node::Node;
use super::retired::{Behind, Retired};
use super::{Beside, Making};
use crate::Error;
use crate::entry::Value;
use crate::epoch::Epoch;
use crate::meta::{Arena, Cache, CacheStat};
use crate::sync::Mutex;
use page::Supply;
use std::marker::PhantomData;
use std::sync::Arc;

/// A node that no link has named yet.
#[derive(Debug)]
pub(super) struct Fresh<E> {
    link: NodeRef,
    /// Keys of a packed one.
    count: usize,
    beside: PhantomData<E>,
}

impl<E> Fresh<E> {
    pub(super) fn node_ref(&self) -> NodeRef {
        self.link
    }

    pub(super) fn kind(&self) -> NodeKind {
        self.link.kind
    }

    /// Gives it an entry; false where it has no room.
    pub(super) fn put(&mut self, key: u16, value: Value, beside: E) -> bool {
        let packed = self.link.kind.is_packed();
        let nth = if packed { self.count } else { key as usize % LEAF };
        if nth >= self.link.kind.capacity() {
            return false;
        }
        // SAFETY: there is room, and the node is this caller's alone.
        unsafe { self.link.write(nth, key, value, beside) }
        if packed {
            self.count += 1;
            // SAFETY: `make` wrote the head.
            unsafe { self.link.header().as_ref() }.store(self.count, None);
        }
        true
    }

    /// It as others will see it.
    pub(super) fn node(&self) -> Node<'_, E> {
        // SAFETY: `make` wrote the node, and it stays while this is borrowed.
        unsafe { Node::new(self.link) }
    }
}

/// The memory of a table's nodes.
#[derive(Debug)]
pub(super) struct Nodes<E> {
    /// By kind.
    caches: Box<[Cache]>,
    arena: Arc<Arena>,
    nodes: PhantomData<fn() -> E>,
}

impl<E: Beside> Nodes<E> {
    pub(super) fn new(arena: &Arc<Arena>) -> Result<Self, Error> {
        let caches = NodeKind::all().map(|kind| Ok(Cache::new(arena, kind.bytes::<E>(), ALIGN)?));
        let caches = caches.collect::<Result<_, Error>>()?;
        Ok(Nodes { caches, arena: arena.clone(), nodes: PhantomData })
    }

    /// Who may refuse the table memory.
    pub(super) fn supply(&self) -> Option<&dyn Supply> {
        self.arena.supply()
    }

    fn cache(&self, kind: NodeKind) -> &Cache {
        &self.caches[kind.0 as usize]
    }

    /// Bytes of a node.
    pub(super) fn bytes(&self, kind: NodeKind) -> usize {
        self.cache(kind).geometry().stride
    }

    /// A node of `leaf`. A packed one has no entries, an inner node no nodes, a dense one all
    /// entries, and they are empty.
    pub(super) fn make(&self, kind: NodeKind, leaf: &E::Leaf) -> Result<Fresh<E>, Error> {
        let address = self.cache(kind).alloc()?;
        Ok(Self::fresh(NodeRef { address, kind }, leaf))
    }

    /// A node of the kind of `node`, in a lower place: as these move down, pages behind them become
    /// empty.
    pub(super) fn make_below(&self, node: Node<'_, E>, leaf: &E::Leaf) -> Option<Fresh<E>> {
        let NodeRef { address, kind } = node.node_ref();
        let address = self.cache(kind).alloc_before(address)?;
        Some(Self::fresh(NodeRef { address, kind }, leaf))
    }

    fn fresh(link: NodeRef, leaf: &E::Leaf) -> Fresh<E> {
        let address = link.address.addr().get();
        assert!(address & !ADDRESS == 0, "a node at {address:#x} has no link");
        let mut fresh = Fresh { link, count: 0, beside: PhantomData };
        // SAFETY: the cache gave memory of this kind's size and alignment that no one else has.
        unsafe {
            if link.kind.is_inner() {
                let chains = link.address.cast::<NodeLink<E>>();
                (0..LEAVES).for_each(|nth| chains.add(nth).write(NodeLink::new()));
            } else if link.kind.is_packed() {
                link.header().write(PackedHeader::new());
            } else {
                (0..LEAF as u16).for_each(|key| {
                    fresh.put(key, Value::EMPTY, E::fresh(leaf));
                });
            }
        }
        fresh
    }

    fn free(&self, link: NodeRef) {
        // SAFETY: both callers say why no one uses the node again.
        let freed = unsafe { self.cache(link.kind).free(link.address) };
        debug_assert_eq!(freed, Ok(()), "a node is freed once, to its own cache");
    }

    /// Gives back a node that was not wanted after all, and names no others.
    pub(super) fn discard(&self, fresh: Fresh<E>) {
        // No link has named it (zs-W2).
        self.free(fresh.link);
    }

    /// Waits for the readers inside, and gives back what was retired before.
    pub(super) fn free_retired(&self, readers: &Epoch, making: &Mutex<Making>) {
        let until = making.lock().retired.retired_count();
        readers.wait();
        // All who could know of these have left (zs-W2). One at a time: others wait to make
        // entries.
        while self.free_first(&mut making.lock().retired, until) {}
    }

    /// Gives back what lost threads had retired, in a child whose readers are forgotten (zs-W2).
    pub(super) fn free_lost(&self, retired: &mut Retired) {
        while self.free_first(retired, u64::MAX) {}
    }

    /// Gives back the first chain among those that went before `until` had.
    fn free_first(&self, retired: &mut Retired, until: u64) -> bool {
        let Some((first, behind)) = retired.take(until) else { return false };
        // SAFETY: it is freed below only, and what it names after it was read.
        let node = unsafe { Node::<E>::new(first) };
        let goes = |node: &Node<'_, E>| behind == Behind::Goes || node.kind().is_packed();
        for part in node.nodes().filter(goes) {
            part.leaves().flat_map(Node::nodes).for_each(|node| self.free(node.node_ref()));
            self.free(part.node_ref());
        }
        true
    }

    /// Gives back the memory retained for the next nodes.
    pub(super) fn shrink(&self) {
        self.caches.iter().for_each(|cache| {
            cache.shrink();
        });
    }

    /// Bytes of the pages the nodes lie in.
    #[cfg(all(test, not(loom)))]
    pub(super) fn page_bytes(&self) -> usize {
        self.caches.iter().map(|cache| cache.stat().pages).sum::<usize>() * page::page_size()
    }

    pub(super) fn lock_for_fork(&self) {
        self.caches.iter().for_each(Cache::lock_for_fork);
    }

    pub(super) fn unlock_after_fork(&self) {
        self.caches.iter().for_each(Cache::unlock_after_fork);
    }

    pub(super) fn repair(&self) {
        self.caches.iter().for_each(Cache::repair);
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
