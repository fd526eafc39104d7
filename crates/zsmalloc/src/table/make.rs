//! Making entries: they go to a chain's last node, or to a new one behind it. Nothing is converted
//! for it, but once there is a wide node, the packed ones before it are only in the way, and go if
//! they can at once.
#![allow(unsafe_code)]

use super::fresh::Fresh;
use super::layout::{CROWD, LEAF, LEAVES, Level, NodeKind};
use super::link::NodeLink;
use super::node::Node;
use super::{Making, Table, split};
use crate::Error;
use crate::entry::Value;
use crate::epoch::EpochGuard;

/// Makes entry `index`, if there is none. Where there are packed nodes before a wide one on the way
/// to it now, that chain is returned.
pub(super) fn make(table: &Table, index: u32) -> Result<Option<Level>, Error> {
    let mut making = table.making.lock();
    let (region, key) = split(index);
    let supply = table.nodes.supply();
    if let Some(floors) = &table.floors {
        floors.make(index as u64 / LEAF as u64, supply)?;
    }
    let chain = table.regions.get_or_make(region, supply, NodeLink::new)?;
    let inside = table.epoch.enter();
    if table.nodes.load(chain, &inside).and_then(|node| node.find(key)).is_some() {
        return Ok(None);
    }
    let room = making.room;
    make_in(table, &mut making, &inside, chain, Level::Region, index)?;
    let has_grown = making.room > room;
    Ok(has_grown.then(|| chain_to_absorb(table, &inside, chain, key)).flatten())
}

/// Returns where there are packed nodes before a wide one, on the way to an entry.
fn chain_to_absorb(
    table: &Table,
    inside: &EpochGuard<'_>,
    chain: &NodeLink,
    key: u16,
) -> Option<Level> {
    let region = table.nodes.load(chain, inside)?;
    let inner = region.inner()?;
    if region.is_chain() {
        return Some(Level::Region);
    }
    let nth = key as usize / LEAF;
    let leaf = inner.below(nth)?;
    (leaf.is_chain() && leaf.wide().is_some()).then_some(Level::Leaf(nth))
}

/// Makes entry `index`, which there is not in that chain. The first node is packed, unless
/// entries are made in order, and so are those behind it until there are many.
pub(super) fn make_in(
    table: &Table,
    making: &mut Making,
    inside: &EpochGuard<'_>,
    chain: &NodeLink,
    level: Level,
    index: u32,
) -> Result<(), Error> {
    let (_, key) = split(index);
    let Some(first) = table.nodes.load(chain, inside) else {
        let wide = is_filled(table, inside, index);
        let kind = if wide { level.wide() } else { NodeKind::first() };
        let node = make_node(table, making, inside, kind, index)?;
        // SAFETY: it was made just now, and is given up here; `making` is the table's (zs-W4).
        unsafe { chain.publish(&mut making.retired, node.node_ref()) };
        return Ok(());
    };
    if let Some(inner) = first.inner() {
        let nth = key as usize / LEAF;
        return make_in(table, making, inside, inner.leaf(nth), Level::Leaf(nth), index);
    }
    let Some(last) = first.nodes().last() else { return Ok(()) };
    // SAFETY: `making` is the table's (zs-W4).
    if unsafe { last.push(&mut making.retired, key, table.fresh_row(index)) } {
        return Ok(());
    }
    let kind = level.behind(first.nodes().map(|part| part.kind().capacity()).sum());
    let node = make_node(table, making, inside, kind, index)?;
    // SAFETY: as above; the node was made just now, and is given up here.
    unsafe { last.append(&mut making.retired, node.node_ref()) };
    making.pass.made_behind(kind);
    Ok(())
}

/// Returns a node with entry `index`.
fn make_node(
    table: &Table,
    making: &mut Making,
    inside: &EpochGuard<'_>,
    kind: NodeKind,
    index: u32,
) -> Result<Fresh, Error> {
    let (_, key) = split(index);
    let values = table.fresh_row(index);
    let mut fresh = table.nodes.make(kind, values)?;
    if kind.is_inner() {
        let nth = key as usize / LEAF;
        let chain = fresh.node().leaf(nth);
        let made = make_in(table, making, inside, chain, Level::Leaf(nth), index);
        if let Err(error) = made {
            table.nodes.discard(fresh);
            return Err(error);
        }
    } else {
        fresh.put(key, Value::EMPTY, values);
        making.room += kind.capacity();
        making.pass.made(kind);
    }
    Ok(fresh)
}

/// Returns whether the leaf of entry `index` is being filled: the one below has a dense node, which
/// is how tables are filled, or some of its entries are in packed nodes of the region.
fn is_filled(table: &Table, inside: &EpochGuard<'_>, index: u32) -> bool {
    let first = |leaf: u64| {
        let chain = table.regions.get(leaf / LEAVES as u64)?;
        let node = table.nodes.load(chain, inside)?;
        Some((node, (leaf % LEAVES as u64) as usize))
    };
    let nth = index as u64 / LEAF as u64;
    let is_dense = |(region, leaf): (Node<'_>, usize)| {
        let node = region.inner().and_then(|inner| inner.below(leaf));
        node.and_then(Node::wide).is_some()
    };
    let has_crowd = |(region, leaf): (Node<'_>, usize)| region.shadowed(leaf).count() >= CROWD;
    nth.checked_sub(1).and_then(first).is_some_and(is_dense) || first(nth).is_some_and(has_crowd)
}
