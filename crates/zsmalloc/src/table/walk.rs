//! Walks over chains: their nodes, and the entries that can be found in them.

use super::layout::{LEAF, LEAVES, Level, NodeKind};
use super::locks::EntryRef;
use super::node::Node;

/// Calls `look` with the kinds of all nodes from `first` on, including the nodes below an inner
/// node.
pub(super) fn each_kind(first: Node<'_>, mut look: impl FnMut(NodeKind)) {
    for part in first.nodes() {
        look(part.kind());
        part.leaves().flat_map(Node::nodes).for_each(|node| look(node.kind()));
    }
}

/// Returns whether `look` returns true for each entry in the packed nodes from `first` on.
pub(super) fn all_packed_entries<'s>(
    first: Node<'s>,
    mut look: impl FnMut(u16, EntryRef<'s>) -> bool,
) -> bool {
    first.nodes().all(|part| part.packed_entries().all(|(key, entry)| look(key, entry)))
}

/// Returns whether `look` returns true for each entry that a look-up from `first` on can find, in a
/// chain of level `level`.
pub(super) fn all_entries<'s>(
    first: Node<'s>,
    level: Level,
    mut look: impl FnMut(u16, EntryRef<'s>) -> bool,
) -> bool {
    match level {
        Level::Leaf(leaf) => all_of_leaf(first, leaf, Shadowed::default(), look),
        Level::Span => {
            all_packed_entries(first, &mut look)
                && first.inner().is_none_or(|inner| {
                    (0..LEAVES).all(|leaf| match inner.below(leaf) {
                        Some(node) => all_of_leaf(node, leaf, shadowed(first, leaf), &mut look),
                        None => true,
                    })
                })
        }
    }
}

/// Returns whether `look` returns true for each entry of a leaf that a look-up can find in the
/// chain of the leaf's span.
pub(super) fn all_in_leaf<'s>(
    first: Node<'s>,
    leaf: usize,
    mut look: impl FnMut(u16, EntryRef<'s>) -> bool,
) -> bool {
    let node = first.inner().and_then(|inner| inner.below(leaf));
    all_packed_entries(first, |key, entry_ref| key as usize / LEAF != leaf || look(key, entry_ref))
        && node.is_none_or(|node| all_of_leaf(node, leaf, shadowed(first, leaf), &mut look))
}

/// Returns the first key at or after `from` for which a span's chain may have an entry. If a leaf
/// below an inner node has a chain, each of the leaf's keys may have an entry.
pub(super) fn first_made(first: Node<'_>, from: usize) -> Option<usize> {
    let keys = first.nodes().flat_map(|part| part.packed().0).map(|&key| key as usize);
    let packed = keys.filter(|&key| key >= from).min();
    let inner = first.inner();
    let is_made = |leaf: &usize| inner.is_some_and(|inner| inner.leaf(*leaf).link().is_made());
    let leaf = (from / LEAF..LEAVES).find(is_made).map(|leaf| from.max(leaf * LEAF));
    packed.into_iter().chain(leaf).min()
}

/// Returns whether `look` returns true for each entry of a leaf's chain that is not hidden.
fn all_of_leaf<'s>(
    first: Node<'s>,
    leaf: usize,
    mut hidden: Shadowed,
    mut look: impl FnMut(u16, EntryRef<'s>) -> bool,
) -> bool {
    first.nodes().all(|part| {
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
pub(super) fn shadowed(first: Node<'_>, leaf: usize) -> Shadowed {
    let mut hidden = Shadowed::default();
    for part in first.nodes() {
        let keys = part.packed().0.iter().filter(|&&key| key as usize / LEAF == leaf);
        keys.for_each(|&key| hidden.add(key));
    }
    hidden
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
