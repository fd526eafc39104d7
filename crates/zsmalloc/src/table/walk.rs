//! Walks over chains: their nodes, and the entries that can be found in them.

use super::layout::{LEAF, LEAVES, Level, NodeKind};
use super::locks::EntryRef;
use super::node::Node;
use crate::entry::Value;

impl<'s> Node<'s> {
    pub(super) fn leaves(self) -> impl Iterator<Item = Node<'s>> {
        let leaves = if self.kind().is_inner() { LEAVES } else { 0 };
        (0..leaves).filter_map(move |leaf| self.below(leaf))
    }

    #[inline]
    pub(super) fn below(self, leaf: usize) -> Option<Self> {
        self.leaf(leaf).first()
    }

    /// Returns this node and the nodes behind it.
    pub(super) fn nodes(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |part| part.packed().1)
    }

    /// Returns the wide node at the end of the chain, if it has one.
    pub(super) fn wide(self) -> Option<Self> {
        self.nodes().find(|part| !part.kind().is_packed())
    }

    /// Returns the wide node at the end of the chain if it is an inner node.
    pub(super) fn inner(self) -> Option<Self> {
        self.wide().filter(|wide| wide.kind().is_inner())
    }

    /// Returns whether the chain has several nodes.
    pub(super) fn is_chain(self) -> bool {
        self.packed().1.is_some()
    }

    /// Calls `look` with the kinds of all nodes from this node on, including the nodes below an
    /// inner node.
    pub(super) fn each(self, mut look: impl FnMut(NodeKind)) {
        for part in self.nodes() {
            look(part.kind());
            part.leaves().flat_map(Node::nodes).for_each(|node| look(node.kind()));
        }
    }

    /// Returns whether `look` returns true for each entry in the packed nodes from this node on.
    pub(super) fn all_packed_entries(
        self,
        mut look: impl FnMut(u16, EntryRef<'s>) -> bool,
    ) -> bool {
        self.nodes().all(|part| part.packed_entries().all(|(key, entry)| look(key, entry)))
    }

    /// Returns whether `look` returns true for each entry that a look-up from this node on can
    /// find, in a chain of level `level`.
    pub(super) fn all_entries(
        self,
        level: Level,
        mut look: impl FnMut(u16, EntryRef<'s>) -> bool,
    ) -> bool {
        match level {
            Level::Leaf(leaf) => self.all_of_leaf(leaf, Shadowed::default(), look),
            Level::Span => {
                self.all_packed_entries(&mut look)
                    && self.inner().is_none_or(|inner| {
                        (0..LEAVES).all(|leaf| match inner.below(leaf) {
                            Some(node) => node.all_of_leaf(leaf, self.shadowed(leaf), &mut look),
                            None => true,
                        })
                    })
            }
        }
    }

    /// Does the same as `all_entries` for a leaf's entries, in the chain of its span.
    pub(super) fn all_of(
        self,
        leaf: usize,
        mut look: impl FnMut(u16, EntryRef<'s>) -> bool,
    ) -> bool {
        let node = self.inner().and_then(|inner| inner.below(leaf));
        self.all_packed_entries(|key, entry_ref| {
            key as usize / LEAF != leaf || look(key, entry_ref)
        }) && node.is_none_or(|node| node.all_of_leaf(leaf, self.shadowed(leaf), &mut look))
    }

    /// Returns the first key at or after `from` for which a span's chain may have an entry. If a
    /// leaf below an inner node exists, this is the leaf's first key, or `from` within the leaf.
    pub(super) fn first_made(self, from: usize) -> Option<usize> {
        let keys = self.nodes().flat_map(|part| part.packed().0).map(|&key| key as usize);
        let packed = keys.filter(|&key| key >= from).min();
        let inner = self.inner();
        let is_made = |leaf: &usize| inner.is_some_and(|inner| inner.leaf(*leaf).link().is_made());
        let leaf = (from / LEAF..LEAVES).find(is_made).map(|leaf| from.max(leaf * LEAF));
        packed.into_iter().chain(leaf).min()
    }

    /// Does the same as `all_entries` for a leaf's chain, without entries that are hidden.
    fn all_of_leaf(
        self,
        leaf: usize,
        mut hidden: Shadowed,
        mut look: impl FnMut(u16, EntryRef<'s>) -> bool,
    ) -> bool {
        self.nodes().all(|part| {
            let mut found = |key: u16, entry| hidden.has(key) || look(key, entry);
            if part.kind().is_dense() {
                (0..LEAF).all(|nth| found((leaf * LEAF + nth) as u16, part.dense_entry(nth)))
            } else {
                let keys = part.packed().0;
                let all = part.packed_entries().all(|(key, entry)| found(key, entry));
                keys.iter().for_each(|&key| hidden.add(key));
                all
            }
        })
    }

    /// Returns the keys of a leaf's entries that are in packed nodes of the span's chain.
    pub(super) fn shadowed(self, leaf: usize) -> Shadowed {
        let mut hidden = Shadowed::default();
        for part in self.nodes() {
            let keys = part.packed().0.iter().filter(|&&key| key as usize / LEAF == leaf);
            keys.for_each(|&key| hidden.add(key));
        }
        hidden
    }

    /// Asserts that each key belongs to this chain and occurs once, and that only the last packed
    /// node has room.
    pub(super) fn check(self, level: Level) {
        let mut sorted = Vec::new();
        for part in self.nodes() {
            let (keys, behind) = part.packed();
            let full = part.kind().capacity();
            assert!(behind.is_none() || keys.len() == full, "{:?} has room", part.node_ref());
            assert!(
                part.kind().is_packed() || part.kind() == level.wide(),
                "{:?}",
                part.node_ref()
            );
            sorted.extend_from_slice(keys);
        }
        sorted.sort_unstable();
        assert!(sorted.is_sorted_by(|a, b| a < b), "keys of {:?}: {sorted:?}", self.node_ref());
        if let Level::Leaf(leaf) = level {
            let of_leaf = |&key: &u16| key as usize / LEAF == leaf;
            assert!(sorted.iter().all(of_leaf), "keys of leaf {leaf}: {sorted:?}");
        }
        let Some(wide) = self.wide() else { return };
        for key in sorted {
            let entry = wide.find(key).map(|entry_ref| entry_ref.entry.unlocked());
            assert!(entry.is_none_or(|entry| entry == Some(Value::EMPTY)), "hidden entry {key}");
        }
    }
}

/// The hidden entries of a leaf, one bit per key.
#[derive(Default)]
pub(super) struct Shadowed([u64; LEAF.div_ceil(64)]);

impl Shadowed {
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
