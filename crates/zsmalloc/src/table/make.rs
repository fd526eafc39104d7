//! An entry is created in the last node of a chain, or in a new node that is appended to the chain.
//! No conversion is needed. But once the chain has a wide node, the packed nodes before the wide
//! node only slow look-ups down. So packed nodes before a wide node are removed, if no entry in
//! them is locked.
#![allow(unsafe_code)]

use super::fresh::Fresh;
use super::layout::{LEAF, LEAVES, Level, NodeKind};
use super::link::NodeLink;
use super::node::{Chain, Node, write};
use super::policy::LEAF_CROWD;
use super::walk::shadowed;
use super::{Inside, Locked, Table, split};
use crate::Error;
use crate::entry::Value;

/// Creates entry `index`, if it does not exist. If a new node was added, a chain on the entry's
/// path may now have packed nodes before a wide node. Returns the level of a chain with packed
/// nodes before a wide node.
pub(super) fn make(table: &Table, index: u32) -> Result<Option<Level>, Error> {
    let mut locked = table.lock_making();
    let (span, key) = split(index);
    let supply = table.nodes.supply();
    if let Some(floors) = &table.floors {
        floors.make(index as u64 / LEAF as u64, supply)?;
    }
    table.spans.get_or_make(span, supply, NodeLink::new)?;
    let inside = table.enter();
    let Some(chain) = inside.chain(span).filter(|_| inside.find(index).is_none()) else {
        return Ok(None);
    };
    let room = locked.making.room;
    // SAFETY: `chain` is the chain of the entry's span, in the table that is locked.
    unsafe { make_in(&mut locked, &inside, chain, Level::Span, index)? };
    let has_grown = locked.making.room > room;
    Ok(has_grown.then(|| chain_to_absorb(chain, key)).flatten())
}

/// Returns the level at which packed nodes precede a wide node, on the path to an entry.
fn chain_to_absorb(chain: Chain<'_>, key: u16) -> Option<Level> {
    let span = chain.first()?;
    let inner = span.inner()?;
    if span.is_chain() {
        return Some(Level::Span);
    }
    let nth = key as usize / LEAF;
    let leaf = inner.below(nth)?;
    (leaf.is_chain() && leaf.wide().is_some()).then_some(Level::Leaf(nth))
}

/// Creates entry `index`, which does not exist in `chain`. The first node is packed, except if
/// entries are created in order. Further nodes are packed until the chain has many entries.
///
/// # Safety
/// `chain` is the chain of the entry's span or leaf at this level. The chain belongs to the table
/// that is locked, or to a node that was created for this table.
pub(super) unsafe fn make_in(
    locked: &mut Locked<'_>,
    inside: &Inside<'_>,
    chain: Chain<'_>,
    level: Level,
    index: u32,
) -> Result<(), Error> {
    let (_, key) = split(index);
    let Some(first) = chain.first() else {
        let wide = is_filled(inside, index);
        let kind = if wide { level.wide() } else { NodeKind::first() };
        let node = make_node(locked, inside, kind, index)?;
        // SAFETY: the node was just created for the locked table (zs-W4), to which the chain
        // belongs. This function gives up the ownership of the node.
        unsafe { chain.link().publish(&mut locked.making.retired, node.node_ref()) };
        return Ok(());
    };
    if let Some(inner) = first.inner() {
        let nth = key as usize / LEAF;
        // SAFETY: `inner.leaf(nth)` is the chain of that leaf of the span.
        return unsafe { make_in(locked, inside, inner.leaf(nth), Level::Leaf(nth), index) };
    }
    let Some(last) = first.nodes().last() else { return Ok(()) };
    // SAFETY: the node belongs to the chain, and so to the table that is locked. The caller creates
    // only entries that the chain lacks.
    if unsafe { push(locked, last, index) } {
        return Ok(());
    }
    let kind = level.behind(first.nodes().map(|part| part.kind().capacity()).sum());
    let node = make_node(locked, inside, kind, index)?;
    if let Some(head) = last.header() {
        // SAFETY: the number of keys is unchanged, and the table of the node is locked (zs-W4). The
        // new node was just created for this table, and this function gives up the ownership of the
        // new node.
        unsafe { head.store(head.load().0, Some(node.node_ref())) };
    }
    locked.making.pass.made_behind(kind);
    Ok(())
}

/// Adds the empty entry `index` to `last`, the last node of its chain. Returns false if the node
/// has no space.
///
/// # Safety
/// The node belongs to the table that is locked (zs-W4). No packed node of its chain has the
/// entry's key.
unsafe fn push(locked: &mut Locked<'_>, last: Node<'_>, index: u32) -> bool {
    let Some(head) = last.header() else { return false };
    let (table, (count, _)) = (locked.table, head.load());
    if count == last.kind().capacity() {
        return false;
    }
    let row = (table.nodes.row, table.fresh_row(index));
    // SAFETY: the node has space and rows of this kind, no thread reads beyond the count, and no
    // other thread changes the count (zs-W4). The node is the last of its chain, because the other
    // nodes are full.
    unsafe {
        write(last.node_ref(), count, split(index).1, Value::EMPTY, row);
        head.store(count + 1, None);
    }
    true
}

/// Returns a new node with entry `index`.
fn make_node(
    locked: &mut Locked<'_>,
    inside: &Inside<'_>,
    kind: NodeKind,
    index: u32,
) -> Result<Fresh, Error> {
    let (table, (_, key)) = (locked.table, split(index));
    let values = table.fresh_row(index);
    let mut fresh = table.nodes.make(kind, values)?;
    if kind.is_inner() {
        let nth = key as usize / LEAF;
        let chain = fresh.node().leaf(nth);
        // SAFETY: the node, which has no entries yet, was just created for the entry's span.
        let made = unsafe { make_in(locked, inside, chain, Level::Leaf(nth), index) };
        if let Err(error) = made {
            table.nodes.discard(fresh);
            return Err(error);
        }
    } else {
        fresh.put(key, Value::EMPTY, values);
        locked.making.room += kind.capacity();
        locked.making.pass.made(kind);
    }
    Ok(fresh)
}

/// Returns whether the leaf of entry `index` is being filled. A leaf is being filled if the
/// preceding leaf has a dense node, as in a table that is filled in order. A leaf is also being
/// filled if at least `LEAF_CROWD` of its entries are in packed nodes of the span.
fn is_filled(inside: &Inside<'_>, index: u32) -> bool {
    let first =
        |leaf: u64| Some((inside.first(leaf / LEAVES as u64)?, (leaf % LEAVES as u64) as usize));
    let nth = index as u64 / LEAF as u64;
    let is_dense = |(span, leaf): (Node<'_>, usize)| {
        let node = span.inner().and_then(|inner| inner.below(leaf));
        node.and_then(Node::wide).is_some()
    };
    let has_crowd = |(span, leaf): (Node<'_>, usize)| shadowed(span, leaf).count() >= LEAF_CROWD;
    nth.checked_sub(1).and_then(first).is_some_and(is_dense) || first(nth).is_some_and(has_crowd)
}
