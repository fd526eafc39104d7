//! Creation of entries. An entry is added to a packed node with room, or to a new node. A new
//! packed node becomes the first of its chain, and a new wide node becomes the last. Adding an
//! entry never converts an existing node. But packed nodes before a wide node slow look-ups down,
//! so their unlocked entries then move to the wide node.
#![allow(unsafe_code)]

use super::layout::{LEAF, LEAVES, Level, NodeKind, PACKED};
use super::link::NodeLink;
use super::locks::EntryRef;
use super::node::{Chain, Node, write};
use super::policy::{LEAF_CROWD, PACKED_ENTRIES_MAX};
use super::{Inside, Locked, Table, split};
use crate::Error;
use crate::entry::Entry;

/// Creates entry `index`, if it does not exist. If a new node was added, and a chain on the entry's
/// path has packed nodes before a wide node, returns the level of that chain.
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
    let place = unsafe { place(&mut locked, &inside, chain, Level::Span, index)? };
    if !place.entry.is_present() {
        place.row.set_values(table.fresh_row(index));
        // SAFETY: the entry does not exist, and the table is locked.
        unsafe { place.entry.arrive() };
    }
    let has_grown = locked.making.room > room;
    Ok(has_grown.then(|| level_to_absorb(chain, key)).flatten())
}

/// Returns the level of the chain on an entry's path in which packed nodes precede a wide node.
fn level_to_absorb(span: Chain<'_>, key: u16) -> Option<Level> {
    let is_mixed = |chain: Chain<'_>| {
        chain.wide().is_some_and(|wide| chain.first().map(Node::node_ref) != Some(wide.node_ref()))
    };
    let nth = key as usize / LEAF;
    let leaf = span.wide()?.leaf(nth);
    let level = if is_mixed(span) { Level::Span } else { Level::Leaf(nth) };
    (level == Level::Span || is_mixed(leaf)).then_some(level)
}

/// Returns a place for entry `index`: in the wide node of the chain if it has one, else in a packed
/// node. Adds a node if necessary. If a dense node is added for an entry that does not exist, the
/// place is present and empty. In all other cases the place is absent.
///
/// # Safety
/// `chain` is the chain of the entry's span or leaf at this level. The chain belongs to the table
/// that is locked, or to a node that was created for this table. If the chain has no wide node, the
/// entry does not exist.
pub(super) unsafe fn place<'s>(
    locked: &mut Locked<'_>,
    inside: &'s Inside<'_>,
    chain: Chain<'s>,
    level: Level,
    index: u32,
) -> Result<EntryRef<'s>, Error> {
    let (_, key) = split(index);
    if let Some(wide) = chain.wide() {
        if wide.kind() == NodeKind::Dense {
            return Ok(wide.dense_place(key as usize % LEAF));
        }
        let nth = key as usize / LEAF;
        // SAFETY: `wide.leaf(nth)` is the chain of leaf `nth` of the span.
        return unsafe { place(locked, inside, wide.leaf(nth), Level::Leaf(nth), index) };
    }
    let absent = chain.nodes().find_map(|node| node.place(key));
    // SAFETY: the nodes belong to the table that is locked (zs-W4).
    let mut pushed = chain.nodes().filter_map(|node| unsafe { node.push(key) });
    if let Some(place) = absent.or_else(|| pushed.next()) {
        return Ok(place);
    }
    let room = chain.nodes().count() * PACKED;
    let is_wide = if room == 0 { is_filled(inside, index) } else { room >= PACKED_ENTRIES_MAX };
    // SAFETY: guaranteed by the caller.
    unsafe {
        if is_wide {
            append_wide(locked, inside, chain, level, index)?;
        } else {
            prepend(locked, chain)?;
        }
        place(locked, inside, chain, level, index)
    }
}

/// Adds an empty packed node before the other nodes of a chain.
///
/// # Safety
/// The chain belongs to the table that is locked, or to a node that was created for this table.
pub(super) unsafe fn prepend(locked: &mut Locked<'_>, chain: Chain<'_>) -> Result<(), Error> {
    let node = locked.table.nodes.make(NodeKind::Packed, Default::default())?;
    // SAFETY: the node was just created for the table that is locked (zs-W4). All nodes that could
    // be found through the link are behind the new node, whose ownership this function gives up.
    unsafe {
        Node::new(node, locked.table.nodes.row).set_behind(chain.first().map(Node::node_ref));
        chain.link().store(Some(node));
    }
    locked.making.room += PACKED;
    Ok(())
}

/// Adds a wide node, which has a place for entry `index`, behind the packed nodes of a chain.
///
/// # Safety
/// As for [`place`].
unsafe fn append_wide(
    locked: &mut Locked<'_>,
    inside: &Inside<'_>,
    chain: Chain<'_>,
    level: Level,
    index: u32,
) -> Result<(), Error> {
    let (table, kind) = (locked.table, level.wide());
    let node = table.nodes.make(kind, table.fresh_row(index))?;
    // SAFETY: the node was just created for the locked table (zs-W4), so no other thread uses it.
    let wide = unsafe { Node::new(node, table.nodes.row) };
    let nth = index as usize / LEAF % LEAVES;
    if level == Level::Span {
        // SAFETY: the node, which has no leaves yet, was created for the entry's span.
        let made = unsafe { place(locked, inside, wide.leaf(nth), Level::Leaf(nth), index) };
        if let Err(error) = made {
            // SAFETY: no link has referred to the node (zs-W2).
            unsafe { table.nodes.free(node) };
            return Err(error);
        }
    } else {
        // Existing entries of the leaf are in packed nodes. Their places in the new node are
        // absent.
        let above = inside.chain(index as u64 / (LEAF * LEAVES) as u64);
        for (key, place) in above.into_iter().chain([chain]).flat_map(packed_places) {
            if key as usize / LEAF == nth && place.entry.is_present() {
                let rows = (table.nodes.row, Default::default());
                // SAFETY: the node has a place for each entry of the leaf. No other thread uses it.
                unsafe { write(node, key as usize % LEAF, Entry::absent(), rows) };
            }
        }
    }
    locked.making.room += kind.capacity();
    locked.making.pass.made(kind);
    let last = chain.nodes().last();
    // SAFETY: the node is complete, and follows all nodes that the link leads to; this function
    // gives up its ownership.
    unsafe {
        match last {
            Some(last) => last.set_behind(Some(node)),
            None => chain.link().store(Some(node)),
        }
    }
    if last.is_some() {
        locked.making.pass.made_behind(kind);
    }
    Ok(())
}

fn packed_places<'s>(chain: Chain<'s>) -> impl Iterator<Item = (u16, EntryRef<'s>)> {
    chain.nodes().flat_map(Node::packed_places)
}

/// Returns whether the leaf of entry `index` is being filled. This is so if the preceding leaf has
/// a dense node, as in a table that is filled in order. It is also so if at least `LEAF_CROWD` of
/// the leaf's entries are in packed nodes of the span.
fn is_filled(inside: &Inside<'_>, index: u32) -> bool {
    let (leaf, leaves) = (index as u64 / LEAF as u64, LEAVES as u64);
    let is_dense = |leaf: u64| {
        let inner = inside.chain(leaf / leaves).and_then(Chain::wide);
        inner.is_some_and(|inner| inner.leaf((leaf % leaves) as usize).wide().is_some())
    };
    let crowd = inside.chain(leaf / leaves).into_iter().flat_map(packed_places);
    let crowd = crowd.filter(|(key, _)| *key as u64 / LEAF as u64 == leaf % leaves).count();
    leaf.checked_sub(1).is_some_and(is_dense) || crowd >= LEAF_CROWD
}
