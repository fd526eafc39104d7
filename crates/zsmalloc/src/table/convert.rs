//! A conversion replaces the nodes of a leaf or span by nodes of the kind that suits its entries.
//! All steps except the wait for readers are done under the table's lock, so no entry is created
//! during a conversion.
//!
//! A conversion converts all its entries or none. A thread that needs one of the frozen entries
//! gives up the conversion, so that the conversion has no effect:
//!
//! ```text
//!   link: node --begin--> node + converting --all entries frozen and copied--commit--> new node
//!           ^------- given up: an entry is locked, or wanted ------|            (no way back)
//! ```
//! Between begin and commit, the converting thread freezes every entry of the old nodes by
//! compare-and-swap, if the entry is unlocked. A thread that finds a frozen entry looks at the
//! links that lead to the entry. If a link has the flag *converting*, the thread gives up the
//! conversion by a compare-and-swap on the link that a commit would change. Then the thread looks
//! the entry up again, and thaws the entry if it is still frozen. After a commit the look-up
//! returns the entry in the new node, which is not frozen. So no thread waits for a conversion
//! (I3). A conversion waits for no thread either, because nodes with a locked entry are left for a
//! later pass.
//!
//! The entries of packed nodes that precede an inner node in a chain move into the inner node in
//! the same way (`absorb`). The places of these entries in the inner node's leaves are filled
//! first, and stay hidden until the link refers to the inner node. Other entries of the inner node
//! stay in use during the move.
//!
//! The safety rules are those of [`node`](super::node) and of [`Table`].
#![allow(unsafe_code)]

use super::floors::Floors;
use super::fresh::Fresh;
use super::layout::{LEAF, Level, NodeKind, NodeRef, PACKED_MAX};
use super::locks::EntryRef;
use super::make::make_in;
use super::node::{Chain, Node};
use super::policy::REPACKED_ENTRIES_MAX;
use super::retired::Behind;
use super::walk::{all_entries, all_packed_entries, each_kind, first_made};
use super::{Inside, Locked, Table, index_of, split};
use crate::entry::Value;

/// The result of an attempt to convert a chain.
pub(super) enum Outcome {
    /// The chain needs no conversion.
    Left,
    /// A conversion would be worthwhile, but an entry is locked or no memory is available.
    Busy,
    /// A conversion was begun, but given up because another thread used an entry.
    GivenUp,
    /// The chain was converted, which freed this number of bytes of nodes.
    Converted(usize),
    /// Entries of packed nodes moved into the leaves of the inner node, which freed this number of
    /// bytes of nodes.
    Absorbed(usize),
}

/// A chain that a thread is allowed to convert.
#[derive(Clone, Copy)]
struct Subject<'s> {
    span: u64,
    level: Level,
    chain: Chain<'s>,
    first: Node<'s>,
    inside: &'s Inside<'s>,
}

/// Replaces the nodes of a leaf or span by the node that suits its entries and `more` further
/// entries. If all entries are empty, only removes the nodes.
pub(super) fn convert(locked: &mut Locked<'_>, span: u64, level: Level, more: usize) -> Outcome {
    let table = locked.table;
    let inside = &table.enter();
    let chain = inside.chain(span).and_then(|chain| match level {
        Level::Span => Some(chain),
        Level::Leaf(leaf) => Some(chain.first()?.inner()?.leaf(leaf)),
    });
    let Some(chain) = chain else { return Outcome::Left };
    let Some(first) = chain.first() else { return Outcome::Left };
    let subject = Subject { span, level, chain, first, inside };
    let most = match level {
        Level::Leaf(_) => LEAF,
        Level::Span if first.inner().is_some() => REPACKED_ENTRIES_MAX,
        Level::Span => PACKED_MAX,
    };
    let (kept, is_locked) = count(table, &subject, most);
    let kept = kept + more;
    if kept > most {
        return absorb(locked, &subject);
    }
    let kind = match level {
        Level::Leaf(_) => NodeKind::for_leaf(kept),
        Level::Span => NodeKind::packed(kept),
    };
    replace_chain(locked, &subject, (kept > 0).then_some(kind), is_locked)
}

/// Counts the entries of a chain that must be kept in the table, and stops once the count exceeds
/// `most`. The result also states whether one of the counted entries is locked.
fn count(table: &Table, subject: &Subject<'_>, most: usize) -> (usize, bool) {
    let (mut kept, mut is_locked) = (0, false);
    all_entries(subject.first, subject.level, |key, entry_ref| {
        kept += usize::from(is_kept(table, subject.span, key, &entry_ref));
        is_locked |= entry_ref.entry.is_locked();
        kept <= most
    });
    (kept, is_locked)
}

/// Returns whether an entry must be kept in the table.
fn is_kept(table: &Table, span: u64, key: u16, entry_ref: &EntryRef<'_>) -> bool {
    let stays = |floors: &Floors| floors.stays(index_of(span, key), entry_ref.row.generation());
    entry_ref.entry.peek() != Value::EMPTY || table.floors.as_ref().is_some_and(stays)
}

/// Replaces a chain by a node of kind `kind` if that is worthwhile, or by a node of the same kind
/// at a lower address.
fn replace_chain(
    locked: &mut Locked<'_>,
    subject: &Subject<'_>,
    kind: Option<NodeKind>,
    is_locked: bool,
) -> Outcome {
    let (table, Subject { span, level, first, .. }) = (locked.table, *subject);
    let (before, _) = footprint(table, first);
    let is_worth_it =
        first.is_chain() || kind.map_or(0, |kind| table.nodes.bytes(kind)) * 4 <= before * 3;
    if is_locked {
        return if is_worth_it { Outcome::Busy } else { Outcome::Left };
    }
    // The key selects the row of the new entries in a dense node. Other new nodes have no entries,
    // so any of their keys can be used.
    let key = match level {
        Level::Leaf(leaf) => leaf * LEAF,
        Level::Span => first_made(first, 0).unwrap_or(0),
    };
    let values = || table.fresh_row(index_of(span, key as u16));
    let fresh = match kind {
        None => None,
        Some(kind) if is_worth_it => match table.nodes.make(kind, values()) {
            Ok(fresh) => Some(fresh),
            Err(_) => return Outcome::Busy,
        },
        Some(_) if first.kind().is_inner() => return Outcome::Left,
        Some(_) => match table.nodes.make_below(first, values()) {
            Some(fresh) => Some(fresh),
            None => return Outcome::Left,
        },
    };
    let after = fresh.as_ref().map_or(0, |fresh| table.nodes.bytes(fresh.node_ref().kind));
    match try_replace(locked, subject, fresh) {
        Ok(()) => Outcome::Converted(before.saturating_sub(after)),
        Err(fresh) => {
            fresh.into_iter().for_each(|fresh| table.nodes.discard(fresh));
            Outcome::GivenUp
        }
    }
}

/// Replaces the nodes of a chain by `to`, or only its packed nodes if the chain's wide node is
/// kept. First freezes all entries of the replaced nodes and calls `copy`. If another thread uses
/// one of the entries before the commit, calls `undo` for the key of each entry and returns false.
///
/// # Safety
/// `copy` copies all entries that must be kept into `to`. `to` is the wide node that is kept, or a
/// complete node (zs-W1). If a complete node is installed, the caller gives up the ownership of the
/// node.
unsafe fn swap_nodes<'s>(
    locked: &mut Locked<'_>,
    subject: &Subject<'s>,
    (to, behind): (Option<NodeRef>, Behind),
    copy: impl FnOnce() -> bool,
    undo: impl Fn(u16),
) -> bool {
    let Subject { level, chain, first, inside, .. } = *subject;
    assert!(std::ptr::eq(inside.table, locked.table), "the chain is another table's");
    let retired = &mut locked.making.retired;
    let all = |look: &mut dyn FnMut(u16, EntryRef<'s>) -> bool| match behind {
        Behind::Goes => all_entries(first, level, look),
        Behind::Stays => all_packed_entries(first, look),
    };
    // SAFETY: `convert` found the chain's first node while it held this lock of the table (zs-W4).
    unsafe { chain.link().begin(retired, first.node_ref()) };
    let is_copied = all(&mut |_, entry_ref| entry_ref.entry.freeze()) && copy();
    // SAFETY: the conversion was begun and all entries are frozen. The caller guarantees that `to`
    // is complete and that `copy` filled it.
    let mut install = || unsafe { chain.link().install(retired, first.node_ref(), to, behind) };
    if is_copied && install() {
        return true;
    }
    chain.link().give_up();
    all(&mut |key, entry_ref| {
        undo(key);
        // SAFETY: the conversion that froze the entry was given up.
        unsafe { entry_ref.entry.thaw() };
        true
    });
    false
}

/// Gives up conversions that may have frozen entry `index`, which a reader found frozen. After a
/// commit, look-ups find the entry in another node.
pub(super) fn give_up(inside: &Inside<'_>, index: u32) {
    let (span, key) = split(index);
    let Some(chain) = inside.chain(span) else { return };
    chain.link().give_up();
    let inner = chain.first().and_then(Node::inner);
    inner.into_iter().for_each(|inner| inner.leaf(key as usize / LEAF).link().give_up());
    // SAFETY: this is the current entry, and any conversion that froze it was given up (zs-T3).
    inside.find(index).into_iter().for_each(|entry_ref| unsafe { entry_ref.entry.thaw() });
}

/// Replaces the nodes of a chain by `fresh`. If another thread uses an entry of the chain, replaces
/// nothing and returns `fresh` as an error.
fn try_replace(
    locked: &mut Locked<'_>,
    subject: &Subject<'_>,
    mut fresh: Option<Fresh>,
) -> Result<(), Option<Fresh>> {
    let table = locked.table;
    let (_, before) = footprint(table, subject.first);
    let to = fresh.as_ref().map(Fresh::node_ref);
    let copy = || copy(table, subject, &mut fresh);
    // SAFETY: a fresh node is complete, `copy` copies all entries that must be kept, and this
    // function gives up the ownership of the node.
    if unsafe { swap_nodes(locked, subject, (to, Behind::Goes), copy, |_| ()) } {
        let after = to.map_or(0, |to| to.kind.capacity());
        locked.making.room = locked.making.room - before + after;
        return Ok(());
    }
    Err(fresh)
}

/// Copies the entries that must be kept. Returns false if there are more entries than were counted.
/// If another thread thaws and changes an entry during the copy, the commit fails.
fn copy(table: &Table, subject: &Subject<'_>, fresh: &mut Option<Fresh>) -> bool {
    let Subject { span, level, first, .. } = *subject;
    // A dense node has a place for each entry, so all entries of the leaf are copied.
    let all = fresh.as_ref().is_some_and(|fresh| fresh.node_ref().kind.is_dense());
    let copied = all_entries(first, level, |key, entry_ref| {
        let put =
            |fresh: &mut Fresh| fresh.put(key, entry_ref.entry.peek(), entry_ref.row.values());
        let stays = all || is_kept(table, span, key, &entry_ref);
        !stays || fresh.as_mut().is_some_and(put)
    });
    if let Some(floors) = table.floors.as_ref().filter(|_| copied && !all) {
        // The floors are raised last, because a raised floor can change which entries must be kept.
        let fresh = fresh.as_ref().map(Fresh::node);
        all_entries(first, level, |key, entry_ref| {
            if fresh.is_none_or(|fresh| fresh.find(key).is_none()) {
                floors.dropped(index_of(span, key), entry_ref.row.generation());
            }
            true
        });
    }
    copied
}

/// Moves the entries of a span's packed nodes into the inner node at the end of the chain, if there
/// is an inner node.
fn absorb(locked: &mut Locked<'_>, subject: &Subject<'_>) -> Outcome {
    let (table, Subject { span, first, inside, .. }) = (locked.table, *subject);
    let Some(inner) = first.inner().filter(|_| first.is_chain()) else {
        return Outcome::Left;
    };
    if !all_packed_entries(first, |_, entry_ref| !entry_ref.entry.is_locked()) {
        return Outcome::Busy;
    }
    let has_place = all_packed_entries(first, |key, entry_ref| {
        let leaf = key as usize / LEAF;
        let index = index_of(span, key);
        // SAFETY: `inner.leaf(leaf)` is the chain of that leaf of the span, in the table that
        // `convert` locked.
        let mut make =
            || unsafe { make_in(locked, inside, inner.leaf(leaf), Level::Leaf(leaf), index) };
        !is_kept(table, span, key, &entry_ref) || inner.find(key).is_some() || make().is_ok()
    });
    if !has_place {
        return Outcome::Busy;
    }
    let hide = |key: u16| {
        if let Some(hidden) = inner.find(key) {
            hidden.row.set_values(table.fresh_row(index_of(span, key)));
            // SAFETY: no look-up finds the hidden entry, and the packed entry has the same object.
            unsafe { hidden.entry.retarget(hidden.entry.peek(), Value::EMPTY) };
        }
    };
    let (to, reveal) = (Some(inner.node_ref()), || reveal(table, subject, inner));
    // SAFETY: `to` is the wide node that is kept, and `reveal` fills all entries that must be kept.
    if !unsafe { swap_nodes(locked, subject, (to, Behind::Stays), reveal, hide) } {
        return Outcome::GivenUp;
    }
    let packed = || first.nodes().map(|part| part.kind()).filter(|kind| kind.is_packed());
    locked.making.room -= packed().map(NodeKind::capacity).sum::<usize>();
    Outcome::Absorbed(packed().map(|kind| table.nodes.bytes(kind)).sum())
}

/// Copies the entries of packed nodes to their hidden places in the inner node. Returns false if an
/// entry that must be kept has no hidden place.
fn reveal(table: &Table, subject: &Subject<'_>, inner: Node<'_>) -> bool {
    let Subject { span, first, .. } = *subject;
    let moved = all_packed_entries(first, |key, entry_ref| match inner.find(key) {
        Some(hidden) => {
            hidden.row.set_values(entry_ref.row.values());
            // SAFETY: the packed entry is frozen, and a look-up finds only one of the two entries.
            unsafe { hidden.entry.retarget(Value::EMPTY, entry_ref.entry.peek()) }
        }
        None => !is_kept(table, span, key, &entry_ref),
    });
    if let Some(floors) = table.floors.as_ref().filter(|_| moved) {
        all_packed_entries(first, |key, entry_ref| {
            if inner.find(key).is_none() {
                floors.dropped(index_of(span, key), entry_ref.row.generation());
            }
            true
        });
    }
    moved
}

/// Returns the total bytes of all nodes from `node` on, and the number of entries that fit in them.
fn footprint(table: &Table, node: Node<'_>) -> (usize, usize) {
    let (mut bytes, mut room) = (0, 0);
    each_kind(node, |kind| {
        bytes += table.nodes.bytes(kind);
        room += kind.capacity();
    });
    (bytes, room)
}
