//! Nodes: the memory of words, in the pool's arena.
//!
//! ```text
//!   packed  | head 8 | words: 8 each | beside: E each | keys: 2 each |     room for 2 to 96 words
//!   dense   | words: 8 each | beside: E each | words: ...    all 512 of a leaf, in order, a line of memory at a time
//!   branch  | link | link | ...                              128 leaves of a stem
//! ```
//! A chain is the nodes that a link leads to, each behind the one before: packed ones, all full but the last,
//! and at the end perhaps a wide one: a dense one for a leaf, a branch for a stem. Keys are places in the stem.
//! A word behind nodes that have its key is *hidden*: no one finds it, and it is empty.
//!
//! # Safety
//! - zs-W1: a link names a node of its table that was whole before the link was stored: all words
//!   and what is beside them, up to the count; keys below the count never change.
//! - zs-W2: a node is given back only when no link leads to it any more, and then either no link
//!   ever did (`discard`), or all who were inside when the last link went have left
//!   (`free_retired`; who comes later finds no way there). In a child no one was inside
//!   (`free_lost`).
//! - zs-W3: the last way to a node goes only when the node's words are frozen, all that can be
//!   found. A locked word is not frozen, and none is locked again before its chain was given up,
//!   which keeps the link (zs-T3 of [`super`] sees to it that a late thaw is not one too many). So
//!   a node stays while a word of it is locked.
//! - zs-W4: links and heads of published nodes are changed by the holder of the table's lock only,
//!   but for a reader's `give_up`. Who has `&mut Retired` of the table holds that lock.
#![allow(unsafe_code)]

use super::kind::{Kind, LEAF, LEAVES};
use super::link::{Chain, Head, Link};
use super::nodes::Fresh;
use super::retired::Retired;
use super::spot::Spot;
use crate::readers::Inside;
use crate::word::{Value, Word};
use std::marker::PhantomData;
use std::ptr::NonNull;

// SAFETY: a link is a number; what is behind it is shared as zs-W1 to zs-W4 say.
unsafe impl Send for Link {}

impl Link {
    pub(super) fn head(&self) -> NonNull<Head> {
        debug_assert!(self.kind.is_packed());
        self.address.cast()
    }

    /// Writes word `nth` of the node, and its key.
    ///
    /// # Safety
    /// The node has room for it, and no one looks at that place.
    pub(super) unsafe fn write<E>(self, nth: usize, key: u16, value: Value, beside: E) {
        assert!(nth < self.kind.capacity());
        // SAFETY: `bytes` of the kind cover this place in all its parts, aligned as they are; the caller
        // says that it is its own.
        unsafe {
            let start = self.address;
            let (word_at, beside_at) = self.kind.places::<E>(nth);
            start.add(word_at).cast::<Word>().write(Word::new(value));
            start.add(beside_at).cast::<E>().write(beside);
            if self.kind.is_packed() {
                start.add(self.kind.keys_at::<E>()).cast::<u16>().add(nth).write(key);
            }
        }
    }
}

impl<E> Chain<E> {
    /// The first node, for someone inside the readers of its table.
    #[inline]
    pub(super) fn load<'s>(&'s self, _inside: &'s Inside<'_>) -> Option<Node<'s, E>> {
        self.node()
    }

    /// The same for someone who has a node already.
    #[inline]
    fn node<'s>(&'s self) -> Option<Node<'s, E>> {
        Some(Node { link: self.link()?, inside: PhantomData })
    }
}

/// A node that links lead to, for someone inside.
#[derive(Debug)]
pub(super) struct Node<'s, E> {
    link: Link,
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
    pub(super) unsafe fn new(link: Link) -> Self {
        Node { link, inside: PhantomData }
    }

    pub(super) fn link(self) -> Link {
        self.link
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        self.link.kind
    }

    fn head(self) -> Option<&'s Head> {
        // SAFETY: a packed node begins with its head (zs-W1), and stays while its user is inside
        // (zs-W2).
        self.kind().is_packed().then(|| unsafe { self.link.head().as_ref() })
    }

    /// The keys of a packed node, and the node behind: as they were at one moment.
    pub(super) fn packed(self) -> (&'s [u16], Option<Self>) {
        let Some(head) = self.head() else { return (&[], None) };
        let (count, behind) = head.load();
        // SAFETY: keys below the count were written before it was, and do not change (zs-W1).
        let keys = unsafe {
            let keys = self.link.address.add(self.kind().keys_at::<E>());
            std::slice::from_raw_parts(keys.cast().as_ptr(), count)
        };
        (keys, behind.map(|link| Node { link, inside: PhantomData }))
    }

    /// Word `nth` of the node: below the count, if it is packed.
    #[inline]
    pub(super) fn spot(self, nth: usize) -> Spot<'s, E> {
        let (kind, start) = (self.kind(), self.link.address);
        assert!(nth < kind.capacity());
        let (word_at, beside_at) = kind.places::<E>(nth);
        // SAFETY: it was written before it could be found (zs-W1), and stays (zs-W2).
        unsafe {
            Spot {
                word: start.add(word_at).cast().as_ref(),
                beside: start.add(beside_at).cast().as_ref(),
            }
        }
    }

    /// What a branch has for a leaf of its stem.
    #[inline]
    pub(super) fn leaf(self, leaf: usize) -> &'s Chain<E> {
        assert!(self.kind().is_branch() && leaf < LEAVES);
        // SAFETY: a branch has so many (zs-W1), and stays (zs-W2).
        unsafe { self.link.address.cast::<Chain<E>>().add(leaf).as_ref() }
    }

    /// The first node of a leaf of a branch.
    #[inline]
    pub(super) fn below(self, leaf: usize) -> Option<Self> {
        self.leaf(leaf).node()
    }

    /// The word of `key`, in this node or one behind.
    #[inline(always)]
    pub(super) fn find(self, key: u16) -> Option<Spot<'s, E>> {
        let node = if self.kind().is_branch() { self.below(key as usize / LEAF)? } else { self };
        if node.kind().is_dense() {
            Some(node.spot(key as usize % LEAF))
        } else {
            node.find_packed(key)
        }
    }

    #[inline(never)]
    fn find_packed(self, key: u16) -> Option<Spot<'s, E>> {
        let (keys, behind) = self.packed();
        match position(keys, key) {
            Some(nth) => Some(self.spot(nth)),
            None => behind?.find(key),
        }
    }

    /// Adds an empty word to the last node of a chain that has not got that key; false where that has no room.
    pub(super) fn push(self, _alone: &mut Retired, key: u16, beside: E) -> bool {
        let Some(head) = self.head() else { return false };
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
        if let Some(head) = self.head() {
            head.store(head.load().0, Some(behind.link()));
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
