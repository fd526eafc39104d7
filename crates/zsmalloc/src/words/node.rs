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
//! - W1: a link names a node of its table that was whole before the link was stored: all words and what is
//!   beside them, up to the count; keys below the count never change.
//! - W2: a node is given back only when no link leads to it any more, and then either no link ever did
//!   (`discard`), or all who were inside when the last link went have left (`free_retired`; who comes later
//!   finds no way there). In a child no one was inside (`free_lost`).
//! - W3: the last way to a node goes only when the node's words are frozen, all that can be found. A locked word
//!   is not frozen, and none is locked again before its chain was given up, which keeps the link (T3 of
//!   [`super`] sees to it that a late thaw is not one too many). So a node stays while a word of it is locked.
//! - W4: links and heads of published nodes are changed by the holder of the table's lock only, but for a
//!   reader's `give_up`. Who has `&mut Retired` of the table holds that lock.
#![allow(unsafe_code)]

use super::kind::{Kind, LEAF, LEAVES, Level};
use super::link::{Chain, Head, Link};
use super::nodes::Fresh;
use super::retired::Retired;
use super::spot::Spot;
use crate::readers::Inside;
use crate::word::{Value, Word};
use std::marker::PhantomData;
use std::ptr::NonNull;

// SAFETY: a link is a number; what is behind it is shared as W1 to W4 say.
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
        // SAFETY: a packed node begins with its head (W1), and stays while its user is inside (W2).
        self.kind().is_packed().then(|| unsafe { self.link.head().as_ref() })
    }

    /// The keys of a packed node, and the node behind: as they were at one moment.
    fn packed(self) -> (&'s [u16], Option<Self>) {
        let Some(head) = self.head() else { return (&[], None) };
        let (count, behind) = head.load();
        // SAFETY: keys below the count were written before it was, and do not change (W1).
        let keys = unsafe {
            let keys = self.link.address.add(self.kind().keys_at::<E>());
            std::slice::from_raw_parts(keys.cast().as_ptr(), count)
        };
        (keys, behind.map(|link| Node { link, inside: PhantomData }))
    }

    /// Word `nth` of the node: below the count, if it is packed.
    #[inline]
    fn spot(self, nth: usize) -> Spot<'s, E> {
        let (kind, start) = (self.kind(), self.link.address);
        assert!(nth < kind.capacity());
        let (word_at, beside_at) = kind.places::<E>(nth);
        // SAFETY: it was written before it could be found (W1), and stays (W2).
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
        // SAFETY: a branch has so many (W1), and stays (W2).
        unsafe { self.link.address.cast::<Chain<E>>().add(leaf).as_ref() }
    }

    /// The first nodes of a branch's leaves.
    pub(super) fn leaves(self) -> impl Iterator<Item = Node<'s, E>> {
        let leaves = if self.kind().is_branch() { LEAVES } else { 0 };
        (0..leaves).filter_map(move |leaf| self.leaf(leaf).node())
    }

    /// The word of `key`, in this node or one behind.
    #[inline(always)]
    pub(super) fn find(self, key: u16) -> Option<Spot<'s, E>> {
        let of_leaf = |branch: Self| branch.leaf(key as usize / LEAF).node();
        let node = if self.kind().is_branch() { of_leaf(self)? } else { self };
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

    /// This node and those behind it.
    pub(super) fn parts(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |part| part.packed().1)
    }

    /// The wide node at the end.
    pub(super) fn wide(self) -> Option<Self> {
        self.parts().find(|part| !part.kind().is_packed())
    }

    /// The same, if it is a branch.
    pub(super) fn branch(self) -> Option<Self> {
        self.wide().filter(|wide| wide.kind().is_branch())
    }

    /// Whether words lie in several nodes of the chain.
    pub(super) fn is_chain(self) -> bool {
        self.packed().1.is_some()
    }

    /// All nodes from here on, also behind a branch.
    pub(super) fn each(self, mut look: impl FnMut(Kind)) {
        for part in self.parts() {
            look(part.kind());
            part.leaves().flat_map(Node::parts).for_each(|node| look(node.kind()));
        }
    }

    /// Whether `look` says so of each word in the packed nodes from here on.
    pub(super) fn all_packed(self, mut look: impl FnMut(u16, Spot<'s, E>) -> bool) -> bool {
        self.parts().all(|part| {
            let mut keys = part.packed().0.iter().enumerate();
            keys.all(|(nth, &key)| look(key, part.spot(nth)))
        })
    }

    /// Whether `look` says so of each word that can be found from here on, in what is a chain of that level.
    pub(super) fn all(self, level: Level, mut look: impl FnMut(u16, Spot<'s, E>) -> bool) -> bool {
        match level {
            Level::Leaf(leaf) => self.all_of_leaf(leaf, Hidden::default(), look),
            Level::Stem => {
                self.all_packed(&mut look)
                    && self.branch().is_none_or(|branch| {
                        (0..LEAVES).all(|leaf| match branch.leaf(leaf).node() {
                            Some(node) => node.all_of_leaf(leaf, self.hidden(leaf), &mut look),
                            None => true,
                        })
                    })
            }
        }
    }

    /// The same of a leaf's words, in what is the chain of its stem.
    pub(super) fn all_of(
        self,
        leaf: usize,
        mut look: impl FnMut(u16, Spot<'s, E>) -> bool,
    ) -> bool {
        let node = self.branch().and_then(|branch| branch.leaf(leaf).node());
        self.all_packed(|key, spot| key as usize / LEAF != leaf || look(key, spot))
            && node.is_none_or(|node| node.all_of_leaf(leaf, self.hidden(leaf), &mut look))
    }

    /// The first key from `from` on that a stem's chain may have a word of: the first of a leaf behind a branch.
    pub(super) fn first_made(self, from: usize) -> Option<usize> {
        let keys = self.parts().flat_map(|part| part.packed().0).map(|&key| key as usize);
        let packed = keys.filter(|&key| key >= from).min();
        let branch = self.branch();
        let is_made = |leaf: &usize| branch.is_some_and(|branch| branch.leaf(*leaf).is_made());
        let leaf = (from / LEAF..LEAVES).find(is_made).map(|leaf| from.max(leaf * LEAF));
        packed.into_iter().chain(leaf).min()
    }

    /// The same of a leaf's chain, but for words that are hidden.
    fn all_of_leaf(
        self,
        leaf: usize,
        mut hidden: Hidden,
        mut look: impl FnMut(u16, Spot<'s, E>) -> bool,
    ) -> bool {
        self.parts().all(|part| {
            let mut found = |key: u16, nth| hidden.has(key) || look(key, part.spot(nth));
            if part.kind().is_dense() {
                (0..LEAF).all(|nth| found((leaf * LEAF + nth) as u16, nth))
            } else {
                let keys = part.packed().0;
                let all = keys.iter().enumerate().all(|(nth, &key)| found(key, nth));
                keys.iter().for_each(|&key| hidden.add(key));
                all
            }
        })
    }

    /// Words of a leaf that are in packed nodes of its stem's chain.
    pub(super) fn hidden(self, leaf: usize) -> Hidden {
        let mut hidden = Hidden::default();
        for part in self.parts() {
            let keys = part.packed().0.iter().filter(|&&key| key as usize / LEAF == leaf);
            keys.for_each(|&key| hidden.add(key));
        }
        hidden
    }

    /// Asserts that keys are of this chain and once each, and that only the last packed node has room.
    pub(super) fn check(self, level: Level) {
        let mut sorted = Vec::new();
        for part in self.parts() {
            let (keys, behind) = part.packed();
            let full = part.kind().capacity();
            assert!(behind.is_none() || keys.len() == full, "{:?} has room", part.link);
            assert!(part.kind().is_packed() || part.kind() == level.wide(), "{:?}", part.link);
            sorted.extend_from_slice(keys);
        }
        sorted.sort_unstable();
        assert!(sorted.is_sorted_by(|a, b| a < b), "keys of {:?}: {sorted:?}", self.link);
        if let Level::Leaf(leaf) = level {
            let of_leaf = |&key: &u16| key as usize / LEAF == leaf;
            assert!(sorted.iter().all(of_leaf), "keys of leaf {leaf}: {sorted:?}");
        }
        let Some(wide) = self.wide() else { return };
        for key in sorted {
            let word = wide.find(key).map(|spot| spot.word.unlocked());
            assert!(word.is_none_or(|word| word == Some(Value::EMPTY)), "hidden word {key}");
        }
    }

    /// Adds an empty word to the last node of a chain that has not got that key; false where that has no room.
    pub(super) fn push(self, _alone: &mut Retired, key: u16, beside: E) -> bool {
        let Some(head) = self.head() else { return false };
        let (count, _) = head.load();
        if count == self.kind().capacity() {
            return false;
        }
        // SAFETY: there is room, no one looks beyond the count, and no one else adds to it (W4).
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

/// Words of a leaf that are not to be looked at, by key: a bit for each.
#[derive(Default)]
pub(super) struct Hidden([u64; LEAF.div_ceil(64)]);

impl Hidden {
    fn has(&self, key: u16) -> bool {
        let nth = key as usize % LEAF;
        self.0[nth / 64] >> (nth % 64) & 1 == 1
    }

    fn add(&mut self, key: u16) {
        let nth = key as usize % LEAF;
        self.0[nth / 64] |= 1 << (nth % 64);
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

/// The place of `key`. Eight at a time, which is one comparison.
fn position(keys: &[u16], key: u16) -> Option<usize> {
    let has = |chunk: &&[u16]| chunk.iter().fold(false, |found, &other| found | (other == key));
    let nth = keys.chunks(8).position(|chunk| has(&chunk))?;
    let at = keys[nth * 8..].iter().position(|&other| other == key)?;
    Some(nth * 8 + at)
}
