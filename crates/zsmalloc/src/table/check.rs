//! Assertions that check a table's whole state.

use super::Table;
use super::layout::{ALIGN, LEAF, LEAVES, Level, NodeKind};
use super::node::Node;
use super::walk::each_kind;
use crate::entry::Value;

pub(super) fn node_counts(table: &Table) -> [usize; ALIGN] {
    let mut counts = [0; ALIGN];
    let inside = table.enter();
    for (span, _) in table.spans.from(0) {
        inside.first(span).into_iter().for_each(|node| {
            each_kind(node, |kind| counts[kind.0 as usize] += 1);
        });
    }
    counts
}

/// Asserts that the state of all nodes is consistent. No other thread is allowed to use the table
/// during the check.
pub(super) fn check(table: &Table) {
    let counts = node_counts(table);
    table.nodes.check(&counts);
    let room: usize =
        NodeKind::all().zip(counts).map(|(kind, count)| kind.capacity() * count).sum();
    assert_eq!(room, table.making.lock().room, "entries the nodes have room for");
    let inside = table.enter();
    for node in table.spans.from(0).filter_map(|(span, _)| inside.first(span)) {
        check_chain(node, Level::Span);
        let Some(inner) = node.inner() else { continue };
        let leaves = (0..LEAVES).map(|leaf| (leaf, inner.below(leaf)));
        leaves.for_each(|(leaf, node)| {
            node.into_iter().for_each(|node| check_chain(node, Level::Leaf(leaf)));
        });
    }
    drop(inside);
    table.for_each(|index, entry, _| {
        assert!(!entry.is_frozen(), "entry {index} is frozen, and nothing is being converted");
    });
}

/// Asserts that each key belongs to this chain and occurs once, and that only the last packed node
/// has space.
fn check_chain(first: Node<'_>, level: Level) {
    let mut sorted = Vec::new();
    for part in first.nodes() {
        let (keys, behind) = part.packed();
        let (full, at) = (part.kind().capacity(), part.node_ref());
        assert!(behind.is_none() || keys.len() == full, "{at:?} has room");
        assert!(part.kind().is_packed() || part.kind() == level.wide(), "{at:?}");
        sorted.extend_from_slice(keys);
    }
    sorted.sort_unstable();
    assert!(sorted.is_sorted_by(|a, b| a < b), "keys of {:?}: {sorted:?}", first.node_ref());
    if let Level::Leaf(leaf) = level {
        let of_leaf = |&key: &u16| key as usize / LEAF == leaf;
        assert!(sorted.iter().all(of_leaf), "keys of leaf {leaf}: {sorted:?}");
    }
    let Some(wide) = first.wide() else { return };
    for key in sorted {
        let entry = wide.find(key).map(|entry_ref| entry_ref.entry.unlocked());
        assert!(entry.is_none_or(|entry| entry == Some(Value::EMPTY)), "hidden entry {key}");
    }
}
