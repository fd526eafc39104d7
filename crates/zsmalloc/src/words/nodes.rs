//! The memory of a table's nodes: how they are made, and given back.
//!
//! Safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::kind::{ALIGN, Kind, LEAF, LEAVES};
use super::link::{ADDRESS, Chain, Head, Link};
use super::node::Node;
use super::retired::{Behind, Retired};
use super::{Beside, Making};
use crate::Error;
use crate::readers::Readers;
use crate::sync::Mutex;
use crate::word::Value;
use page::Supply;
use slab::packed::{Arena, CacheStat, RawCache};
use std::marker::PhantomData;
use std::sync::Arc;

/// A node that no link has named yet.
#[derive(Debug)]
pub(super) struct Fresh<E> {
    link: Link,
    /// Keys of a packed one.
    count: usize,
    beside: PhantomData<E>,
}

impl<E> Fresh<E> {
    pub(super) fn link(&self) -> Link {
        self.link
    }

    pub(super) fn kind(&self) -> Kind {
        self.link.kind
    }

    /// Gives it a word; false where it has no room.
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
            unsafe { self.link.head().as_ref() }.store(self.count, None);
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
    caches: Box<[RawCache]>,
    arena: Arc<Arena>,
    nodes: PhantomData<fn() -> E>,
}

impl<E: Beside> Nodes<E> {
    pub(super) fn new(arena: &Arc<Arena>) -> Result<Self, Error> {
        let caches = Kind::all().map(|kind| Ok(RawCache::new(arena, kind.bytes::<E>(), ALIGN)?));
        let caches = caches.collect::<Result<_, Error>>()?;
        Ok(Nodes { caches, arena: arena.clone(), nodes: PhantomData })
    }

    /// Who may refuse the table memory.
    pub(super) fn supply(&self) -> Option<&dyn Supply> {
        self.arena.supply()
    }

    fn cache(&self, kind: Kind) -> &RawCache {
        &self.caches[kind.0 as usize]
    }

    /// Bytes of a node.
    pub(super) fn bytes(&self, kind: Kind) -> usize {
        self.cache(kind).geometry().stride
    }

    /// A node of `leaf`. A packed one has no words, a branch no nodes, a dense one all words, and they are empty.
    pub(super) fn make(&self, kind: Kind, leaf: &E::Leaf) -> Result<Fresh<E>, Error> {
        let address = self.cache(kind).alloc()?;
        Ok(Self::fresh(Link { address, kind }, leaf))
    }

    /// A node of the kind of `node`, in a lower place: as these move down, pages behind them become empty.
    pub(super) fn make_below(&self, node: Node<'_, E>, leaf: &E::Leaf) -> Option<Fresh<E>> {
        let Link { address, kind } = node.link();
        let address = self.cache(kind).alloc_before(address)?;
        Some(Self::fresh(Link { address, kind }, leaf))
    }

    fn fresh(link: Link, leaf: &E::Leaf) -> Fresh<E> {
        let address = link.address.addr().get();
        assert!(address & !ADDRESS == 0, "a node at {address:#x} has no link");
        let mut fresh = Fresh { link, count: 0, beside: PhantomData };
        // SAFETY: the cache gave memory of this kind's size and alignment that no one else has.
        unsafe {
            if link.kind.is_branch() {
                let chains = link.address.cast::<Chain<E>>();
                (0..LEAVES).for_each(|nth| chains.add(nth).write(Chain::new()));
            } else if link.kind.is_packed() {
                link.head().write(Head::new());
            } else {
                (0..LEAF as u16).for_each(|key| {
                    fresh.put(key, Value::EMPTY, E::fresh(leaf));
                });
            }
        }
        fresh
    }

    fn free(&self, link: Link) {
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
    pub(super) fn free_retired(&self, readers: &Readers, making: &Mutex<Making>) {
        let until = making.lock().retired.gone();
        readers.wait();
        // All who could know of these have left (zs-W2). One at a time: others wait to make words.
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
        for part in node.parts().filter(goes) {
            part.leaves().flat_map(Node::parts).for_each(|node| self.free(node.link()));
            self.free(part.link());
        }
        true
    }

    /// Gives back the memory kept ready for the next nodes.
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
        self.caches.iter().for_each(RawCache::lock_for_fork);
    }

    pub(super) fn unlock_after_fork(&self) {
        self.caches.iter().for_each(RawCache::unlock_after_fork);
    }

    pub(super) fn mend(&self) {
        self.caches.iter().for_each(RawCache::repair);
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
