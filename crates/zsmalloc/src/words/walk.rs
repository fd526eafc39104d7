//! Walks over chains: their nodes, and the words that can be found in them.

use super::kind::{Kind, LEAF, LEAVES, Level};
use super::node::Node;
use super::spot::Spot;
use crate::word::Value;

impl<'s, E> Node<'s, E> {
    /// The first nodes of a branch's leaves.
    pub(super) fn leaves(self) -> impl Iterator<Item = Node<'s, E>> {
        let leaves = if self.kind().is_branch() { LEAVES } else { 0 };
        (0..leaves).filter_map(move |leaf| self.below(leaf))
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
                        (0..LEAVES).all(|leaf| match branch.below(leaf) {
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
        let node = self.branch().and_then(|branch| branch.below(leaf));
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
            assert!(behind.is_none() || keys.len() == full, "{:?} has room", part.link());
            assert!(part.kind().is_packed() || part.kind() == level.wide(), "{:?}", part.link());
            sorted.extend_from_slice(keys);
        }
        sorted.sort_unstable();
        assert!(sorted.is_sorted_by(|a, b| a < b), "keys of {:?}: {sorted:?}", self.link());
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
