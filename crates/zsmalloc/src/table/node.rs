//! Nodes: the memory of entries, in the pool's arena.
//!
//! ```text
//!   packed  | head 8 | entries: 8 each | beside: E each | keys: 2 each |     room for 2 to 96 entries
//!   dense   | entries: 8 each | beside: E each | entries: ...    all 512 of a leaf, in order, a line of memory at a time
//!   inner   | link | link | ...                              128 leaves of a region
//! ```
//! A chain is the nodes that a link leads to, each behind the one before: packed ones, all full but
//! the last, and at the end perhaps a wide one: a dense one for a leaf, an inner node for a region.
//! Keys are places in the region. An entry behind nodes that have its key is *hidden*: no one finds
//! it, and it is empty.
//!
//! # Safety
//! - zs-W1: a link names a node of its table that was whole before the link was stored: all entries
//!   and what is beside them, up to the count; keys below the count never change.
//! - zs-W2: a node is given back only when no link leads to it any more, and then either no link
//!   ever did (`discard`), or all who were inside when the last link went have left
//!   (`free_retired`; who comes later finds no way there). In a child no one was inside
//!   (`free_lost`).
//! - zs-W3: the last way to a node goes only when the node's entries are frozen, all that can be
//!   found. A locked entry is not frozen, and none is locked again before its chain was given up,
//!   which keeps the link (zs-T3 of [`super`] sees to it that a late thaw is not one too many). So
//!   a node stays while an entry of it is locked.
//! - zs-W4: links and heads of published nodes are changed by the holder of the table's lock only,
//!   but for a reader's `give_up`. Who has `&mut Retired` of the table holds that lock.
#![allow(unsafe_code)]

use super::entry_ref::EntryRef;
use super::layout::{LEAF, LEAVES, NodeKind};
use super::link::{NodeLink, NodeRef, PackedHeader};
use super::nodes::Fresh;
use super::retired::Retired;
use crate::entry::{Entry, Value};
use crate::epoch::EpochGuard;
use std::marker::PhantomData;
use std::ptr::NonNull;

// SAFETY: a link is a number; what is behind it is shared as zs-W1 to zs-W4 say.
unsafe impl Send for NodeRef {}

impl NodeRef {
    pub(super) fn header(&self) -> NonNull<PackedHeader> {
        debug_assert!(self.kind.is_packed());
        self.address.cast()
    }

    /// Writes entry `nth` of the node, and its key.
    ///
    /// # Safety
    /// The node has room for it, and no one looks at that place.
    pub(super) unsafe fn write<E>(self, nth: usize, key: u16, value: Value, beside: E) {
        assert!(nth < self.kind.capacity());
        // SAFETY: `bytes` of the kind cover this place in all its parts, aligned as they are; the
        // caller says that it is its own.
        unsafe {
            let start = self.address;
            let (word_at, beside_at) = self.kind.places::<E>(nth);
            start.add(word_at).cast::<Entry>().write(Entry::new(value));
            start.add(beside_at).cast::<E>().write(beside);
            if self.kind.is_packed() {
                start.add(self.kind.keys_at::<E>()).cast::<u16>().add(nth).write(key);
            }
        }
    }
}

impl<E> NodeLink<E> {
    /// The first node, for someone inside the readers of its table.
    #[inline]
    pub(super) fn load<'s>(&'s self, _inside: &'s EpochGuard<'_>) -> Option<Node<'s, E>> {
        self.node()
    }

    /// The same for someone who has a node already.
    #[inline]
    fn node<'s>(&'s self) -> Option<Node<'s, E>> {
        Some(Node { link: self.node_ref()?, inside: PhantomData })
    }
}

/// A node that links lead to, for someone inside.
#[derive(Debug)]
pub(super) struct Node<'s, E> {
    link: NodeRef,
    inside: PhantomData<&'s E>,
}

impl<E> Clone for Node<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Node<'_, E> {}

impl<'s, E> Node<'s, E> {
    /// # Safety
    /// The node is whole, and stays while it is looked at.
    pub(super) unsafe fn new(link: NodeRef) -> Self {
        Node { link, inside: PhantomData }
    }

    pub(super) fn node_ref(self) -> NodeRef {
        self.link
    }

    #[inline]
    pub(super) fn kind(self) -> NodeKind {
        self.link.kind
    }

    fn header(self) -> Option<&'s PackedHeader> {
        // SAFETY: a packed node begins with its head (zs-W1), and stays while its user is inside
        // (zs-W2).
        self.kind().is_packed().then(|| unsafe { self.link.header().as_ref() })
    }

    /// The keys of a packed node, and the node behind: as they were at one moment.
    pub(super) fn packed(self) -> (&'s [u16], Option<Self>) {
        let Some(head) = self.header() else { return (&[], None) };
        let (count, behind) = head.load();
        // SAFETY: keys below the count were written before it was, and do not change (zs-W1).
        let keys = unsafe {
            let keys = self.link.address.add(self.kind().keys_at::<E>());
            std::slice::from_raw_parts(keys.cast().as_ptr(), count)
        };
        (keys, behind.map(|link| Node { link, inside: PhantomData }))
    }

    /// Entry `nth` of the node: below the count, if it is packed.
    #[inline]
    pub(super) fn entry_at(self, nth: usize) -> EntryRef<'s, E> {
        let (kind, start) = (self.kind(), self.link.address);
        assert!(nth < kind.capacity());
        let (word_at, beside_at) = kind.places::<E>(nth);
        // SAFETY: it was written before it could be found (zs-W1), and stays (zs-W2).
        unsafe {
            EntryRef {
                entry: start.add(word_at).cast().as_ref(),
                beside: start.add(beside_at).cast().as_ref(),
            }
        }
    }

    /// What an inner node has for a leaf of its region.
    #[inline]
    pub(super) fn leaf(self, leaf: usize) -> &'s NodeLink<E> {
        assert!(self.kind().is_inner() && leaf < LEAVES);
        // SAFETY: an inner node has so many (zs-W1), and stays (zs-W2).
        unsafe { self.link.address.cast::<NodeLink<E>>().add(leaf).as_ref() }
    }

    /// The first node of a leaf of an inner node.
    #[inline]
    pub(super) fn below(self, leaf: usize) -> Option<Self> {
        self.leaf(leaf).node()
    }

    /// The entry of `key`, in this node or one behind.
    #[inline(always)]
    pub(super) fn find(self, key: u16) -> Option<EntryRef<'s, E>> {
        let node = if self.kind().is_inner() { self.below(key as usize / LEAF)? } else { self };
        if node.kind().is_dense() {
            Some(node.entry_at(key as usize % LEAF))
        } else {
            node.find_packed(key)
        }
    }

    #[inline(never)]
    fn find_packed(self, key: u16) -> Option<EntryRef<'s, E>> {
        let (keys, behind) = self.packed();
        match position(keys, key) {
            Some(nth) => Some(self.entry_at(nth)),
            None => behind?.find(key),
        }
    }

    /// Adds an empty entry to the last node of a chain that has not got that key; false where that
    /// has no room.
    pub(super) fn push(self, _alone: &mut Retired, key: u16, beside: E) -> bool {
        let Some(head) = self.header() else { return false };
        let (count, _) = head.load();
        if count == self.kind().capacity() {
            return false;
        }
        // SAFETY: there is room, no one looks beyond the count, and no one else adds to it (zs-W4).
        unsafe { self.link.write(count, key, Value::EMPTY, beside) }
        head.store(count + 1, None);
        true
    }

    /// Puts a node behind a packed one that is full and has none.
    pub(super) fn append(self, _alone: &mut Retired, behind: Fresh<E>) {
        if let Some(head) = self.header() {
            head.store(head.load().0, Some(behind.node_ref()));
        }
    }
}

/// The place of `key`. Eight at a time, which is one comparison.
fn position(keys: &[u16], key: u16) -> Option<usize> {
    let has = |chunk: &&[u16]| chunk.iter().fold(false, |found, &other| found | (other == key));
    let nth = keys.chunks(8).position(|chunk| has(&chunk))?;
    let at = keys[nth * 8..].iter().position(|&other| other == key)?;
    Some(nth * 8 + at)
}
