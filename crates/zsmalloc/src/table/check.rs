//! Assertions that check a table's whole state.

use super::Table;
use super::layout::{ALIGN, LEAVES, Level, NodeKind};

pub(super) fn node_counts(table: &Table) -> [usize; ALIGN] {
    let mut counts = [0; ALIGN];
    let inside = table.enter();
    for (span, _) in table.spans.from(0) {
        inside.first(span).into_iter().for_each(|node| {
            node.each(|kind| counts[kind.0 as usize] += 1);
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
        NodeKind::all().zip(counts).map(|(kind, count)| kind.capacity() * count).sum();
    assert_eq!(room, table.making.lock().room, "entries the nodes have room for");
    let inside = table.enter();
    for node in table.spans.from(0).filter_map(|(span, _)| inside.first(span)) {
        node.check(Level::Span);
        let Some(inner) = node.inner() else { continue };
        let leaves = (0..LEAVES).map(|leaf| (leaf, inner.below(leaf)));
        leaves.for_each(|(leaf, node)| {
            node.into_iter().for_each(|node| node.check(Level::Leaf(leaf)));
        });
    }
    drop(inside);
    table.for_each(|index, entry, _| {
        assert!(!entry.is_frozen(), "entry {index} is frozen, and nothing is being converted");
    });
}
