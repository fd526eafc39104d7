//! Assertions that check a table's whole state.

use super::layout::{LEAF, Level, NodeKind};
use super::node::Chain;
use super::walk::{all_entries, each_node, find};
use super::{Table, index_of};
use crate::entry::Presence;
use std::ptr::from_ref;

pub(super) fn node_counts(table: &Table) -> [usize; NodeKind::ALL.len()] {
    let mut counts = [0; NodeKind::ALL.len()];
    let inside = table.enter();
    for (span, _) in table.spans.from(0) {
        let first = inside.chain(span).and_then(Chain::first);
        first.into_iter().for_each(|first| {
            each_node(first, &mut |node| counts[node.kind() as usize] += 1);
        });
    }
    counts
}

/// Asserts that the state of all nodes is consistent. No other thread may use the table during the
/// check.
pub(super) fn check(table: &Table) {
    let counts = node_counts(table);
    table.nodes.check(&counts);
    let room: usize =
        NodeKind::ALL.into_iter().zip(counts).map(|(kind, count)| kind.capacity() * count).sum();
    assert_eq!(room, table.making.lock().room, "entries the nodes have room for");
    let inside = table.enter();
    for (span, _) in table.spans.from(0) {
        let Some(chain) = inside.chain(span) else { continue };
        check_chain(chain, Level::Span);
        let leaves = chain.wide().into_iter().flat_map(|inner| inner.leaves());
        leaves.for_each(|(leaf, chain)| check_chain(chain, Level::Leaf(leaf)));
        let Some(first) = chain.first() else { continue };
        all_entries(first, Level::Span, &mut |key, place| {
            // If an entry had two present places, the look-up would find only one of them.
            let found = find(chain, key).map(|found| from_ref(found.entry));
            let index = index_of(span, key);
            assert_eq!(found, Some(from_ref(place.entry)), "places of entry {index}");
            true
        });
    }
}

/// Asserts that a chain's nodes have kinds and keys of its level, and that no entry is being moved
/// to one of their places.
fn check_chain(chain: Chain<'_>, level: Level) {
    for node in chain.nodes() {
        let at = node.node_ref();
        assert!(node.kind() == NodeKind::Packed || node.kind() == level.wide(), "{at:?}");
        let (keys, _) = node.packed();
        for (nth, &key) in keys.iter().enumerate() {
            assert!(!keys[..nth].contains(&key), "key {key} twice in {at:?}");
            if let Level::Leaf(leaf) = level {
                assert_eq!(key as usize / LEAF, leaf, "leaf of key {key} in {at:?}");
            }
            let presence = node.place(key).map(|place| place.entry.presence());
            assert_ne!(presence, Some(Presence::Arriving), "key {key} in {at:?}");
        }
    }
}
