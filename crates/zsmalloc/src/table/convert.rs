//! A conversion moves the entries of a leaf or span to nodes that suit their number. The table is
//! locked during a conversion, so no entry is created. Each entry is moved separately, in four
//! steps:
//!
//! ```text
//!   old place: entry --1--> entry, being moved --3--> absent         1 and 3: compare-and-swap
//!   new place: absent          --2--> copy, arriving --4--> entry
//! ```
//! A thread that locks the entry before step 3 makes step 3 fail: the entry stays in its old place,
//! and the copy is erased. A thread that finds the copy after step 3 performs step 4. So no thread
//! waits for a conversion (I3), and a conversion waits for no thread: an entry that is locked stays
//! in its old node, and a later pass moves it. The places that threads can find are consistent
//! between two steps, and after a conversion that was not completed (zs-T1). So an incomplete
//! conversion is neither recorded nor undone.
//!
//! The safety rules are those of [`node`](super::node) and of [`Table`].
#![allow(unsafe_code)]

use super::floors::Floors;
use super::layout::{Level, NodeKind, PACKED};
use super::locks::EntryRef;
use super::make::{place, prepend};
use super::node::{Chain, Node};
use super::policy::REPACKED_ENTRIES_MAX;
use super::retired::Behind;
use super::walk::{all_entries, each_node};
use super::{Inside, Locked, Table, index_of};
use crate::entry::Value;

/// The result of an attempt to convert a chain.
pub(super) enum Outcome {
    /// The chain needs no conversion.
    Left,
    /// A conversion would be worthwhile, but an entry is locked.
    Busy,
    /// A conversion was begun, but an entry was locked or no memory was available.
    Unfinished,
    /// The chain was converted, which freed this number of bytes of nodes.
    Converted(usize),
    /// As `Converted`, and the entries are now in the leaves of the inner node.
    Absorbed(usize),
}

/// A chain that may be converted.
#[derive(Clone, Copy)]
struct Subject<'s> {
    span: u64,
    level: Level,
    chain: Chain<'s>,
    /// The chain's first node before the conversion.
    first: Node<'s>,
    inside: &'s Inside<'s>,
}

/// Moves the entries of a leaf or span to nodes that suit their number plus `more`, and removes the
/// empty entries.
pub(super) fn convert(locked: &mut Locked<'_>, span: u64, level: Level, more: usize) -> Outcome {
    let table = locked.table;
    let inside = &table.enter();
    let chain = inside.chain(span).and_then(|chain| match level {
        Level::Span => Some(chain),
        Level::Leaf(leaf) => Some(chain.wide()?.leaf(leaf)),
    });
    let Some(chain) = chain else { return Outcome::Left };
    let Some(first) = chain.first() else { return Outcome::Left };
    let subject = Subject { span, level, chain, first, inside };
    let (mut kept, mut is_locked) = (more, false);
    all_entries(first, level, &mut |key, source| {
        kept += usize::from(is_kept(table, index_of(span, key), &source));
        is_locked |= source.entry.is_locked();
        kept <= REPACKED_ENTRIES_MAX
    });
    if kept > REPACKED_ENTRIES_MAX {
        absorb(locked, &subject)
    } else {
        repack(locked, &subject, kept, is_locked)
    }
}

/// Returns whether an entry must be kept in the table.
fn is_kept(table: &Table, index: u32, source: &EntryRef<'_>) -> bool {
    let stays = |floors: &Floors| floors.stays(index, source.row.generation());
    source.entry.peek() != Value::EMPTY || table.floors.as_ref().is_some_and(stays)
}

/// Moves all entries of a chain to new packed nodes, and removes the old nodes from the chain. Does
/// nothing unless this frees a quarter of the nodes' memory, or packed nodes would be replaced by
/// nodes at lower addresses.
fn repack(locked: &mut Locked<'_>, subject: &Subject<'_>, kept: usize, is_locked: bool) -> Outcome {
    let (table, Subject { level, chain, first, .. }) = (locked.table, *subject);
    let (before, room) = footprint(table, first);
    let after = kept.div_ceil(PACKED) * table.nodes.bytes(NodeKind::Packed);
    if after * 4 > before * 3 && (is_locked || !can_sink(table, chain)) {
        return Outcome::Left;
    }
    if is_locked {
        return Outcome::Busy;
    }
    let mut are_moved = true;
    all_entries(first, level, &mut |key, source| {
        are_moved &= remove_or_move(locked, subject, key, source, |locked| {
            let is_new = |node: &Node<'_>| node.node_ref() != first.node_ref();
            // SAFETY: the chain belongs to the table that is locked (zs-W4).
            let push = || chain.first().filter(is_new).and_then(|node| unsafe { node.push(key) });
            // SAFETY: as above.
            push().or_else(|| unsafe { prepend(locked, chain) }.ok().and_then(|()| push()))
        });
        true
    });
    if !are_moved {
        return Outcome::Unfinished;
    }
    let last = chain.nodes().take_while(|node| node.node_ref() != first.node_ref()).last();
    // SAFETY: all places from `first` on are absent (zs-W3), and the table is locked. No other link
    // leads to `first`.
    unsafe {
        match last {
            Some(last) => last.set_behind(None),
            None => chain.link().store(None),
        }
        locked.making.retired.add(first.node_ref(), Behind::Goes);
    }
    locked.making.room -= room;
    let after = chain.nodes().count() * table.nodes.bytes(NodeKind::Packed);
    Outcome::Converted(before.saturating_sub(after))
}

/// Returns whether the chain has only packed nodes, and a new packed node would be at a lower
/// address than the highest of them.
fn can_sink(table: &Table, chain: Chain<'_>) -> bool {
    let highest = chain.nodes().map(Node::node_ref).max_by_key(|node| node.address);
    chain.wide().is_none() && highest.is_some_and(|highest| table.nodes.has_room_below(highest))
}

/// Moves the entries of a chain's packed nodes to the wide node at its end, if it has one.
fn absorb(locked: &mut Locked<'_>, subject: &Subject<'_>) -> Outcome {
    let (table, Subject { span, level, chain, first, inside }) = (locked.table, *subject);
    let Some(wide) = chain.wide().filter(|_| first.kind() == NodeKind::Packed) else {
        return Outcome::Left;
    };
    let packed = || first.nodes().filter(|node| node.kind() == NodeKind::Packed);
    let mut are_moved = true;
    for (key, source) in packed().flat_map(Node::packed_places) {
        if source.entry.is_present() {
            are_moved &= remove_or_move(locked, subject, key, source, |locked| {
                // SAFETY: `chain` is the chain of `level` in the table that `convert` locked. It
                // has a wide node.
                unsafe { place(locked, inside, chain, level, index_of(span, key)) }.ok()
            });
        }
    }
    if !are_moved {
        return Outcome::Unfinished;
    }
    // SAFETY: all places of the packed nodes are absent (zs-W3), and the table is locked. No other
    // link leads to `first`.
    unsafe {
        chain.link().store(Some(wide.node_ref()));
        locked.making.retired.add(first.node_ref(), Behind::Stays);
    }
    let count = packed().count();
    locked.making.room -= count * PACKED;
    let freed = count * table.nodes.bytes(NodeKind::Packed);
    if level == Level::Span { Outcome::Absorbed(freed) } else { Outcome::Converted(freed) }
}

/// Removes an entry if it need not be kept, else moves it to the absent place that `target`
/// returns. Returns false if the entry stays because it is locked or memory for a place is missing.
fn remove_or_move<'s>(
    locked: &mut Locked<'_>,
    subject: &Subject<'s>,
    key: u16,
    source: EntryRef<'s>,
    target: impl FnOnce(&mut Locked<'_>) -> Option<EntryRef<'s>>,
) -> bool {
    let (table, index) = (locked.table, index_of(subject.span, key));
    assert!(std::ptr::eq(subject.inside.table, table), "the chain is another table's");
    let target = if is_kept(table, index, &source) {
        let Some(target) = target(locked) else { return false };
        Some(target)
    } else {
        None
    };
    let Some(value) = source.entry.begin_move() else { return false };
    let Some(target) = target else {
        // Another thread may have filled the entry before `begin_move` marked it.
        if is_kept(table, index, &source) {
            source.entry.stay(value);
            return false;
        }
        // The floor is raised before the entry can be created again.
        if let Some(floors) = &table.floors {
            floors.dropped(index, source.row.generation());
        }
        // SAFETY: this thread marked the entry, and only this thread moves entries (zs-T4). The
        // entry is empty.
        return unsafe { source.entry.leave(value) };
    };
    // If another thread locks the entry to change its row, `leave` fails.
    target.row.set_values(source.row.values());
    // SAFETY: as above, and `target` is an absent place of the same entry, which only the holder of
    // the table's lock changes (zs-W4). When `leave` has succeeded, no other place is present.
    unsafe {
        target.entry.announce(value);
        let has_left = source.entry.leave(value);
        if has_left {
            target.entry.arrive();
        } else {
            target.entry.announce(Value::EMPTY);
        }
        has_left
    }
}

/// Returns the total size in bytes of the nodes from `first` on, and the number of entries for
/// which they have room.
fn footprint(table: &Table, first: Node<'_>) -> (usize, usize) {
    let (mut bytes, mut room) = (0, 0);
    each_node(first, &mut |node| {
        bytes += table.nodes.bytes(node.kind());
        room += node.kind().capacity();
    });
    (bytes, room)
}
