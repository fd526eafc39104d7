//! Conversion: leaves and regions are given the nodes that suit the entries they have. All of it
//! but the waiting for readers is under the table's lock, so that no entry is made meanwhile.
//!
//! A conversion is all or nothing, and a thread that needs one of its entries gives it up:
//!
//! ```text
//!   link: node --begin--> node + converting --all entries frozen and copied--commit--> new node
//!           ^------- given up: an entry is locked, or wanted ------|            (no way back)
//! ```
//! Between begin and commit every entry of the old nodes is frozen by compare-and-swap from its
//! unlocked state. A thread that finds a frozen entry looks at the links that lead to it. If one is
//! converting, the thread gives that up, by a compare-and-swap on the word that would otherwise
//! have committed the conversion. Then it looks the entry up again, and thaws it if it is still
//! frozen; after a commit, the entry that it finds is another one, which is not frozen. So no
//! thread waits for a conversion (I3), and a conversion waits for none: nodes with a locked entry
//! stay as they are until a later pass.
//!
//! The entries of packed nodes before an inner node move behind it in the same way (`absorb`):
//! their places in the inner node's leaves are hidden until the link names the inner node, so they
//! are filled before it does; what the inner node has already is used meanwhile.
//!
//! Safety rules are those of [`node`](super::node) and of [`Table`].
#![allow(unsafe_code)]

use super::floors::Floors;
use super::fresh::Fresh;
use super::layout::{FEW, LEAF, Level, NodeKind, NodeRef, PACKED_MAX};
use super::locks::EntryRef;
use super::make::make_in;
use super::node::{Chain, Node};
use super::retired::Behind;
use super::{Inside, Locked, Table, index_of, split};
use crate::entry::Value;

/// What became of a chain.
pub(super) enum Outcome {
    /// It is as it should be.
    Left,
    /// It would be worth it, but an entry is locked or there is no memory.
    Busy,
    /// A conversion was begun and given up.
    GivenUp,
    /// So many bytes of nodes went.
    Converted(usize),
    /// The same, and its entries are among those of leaves now.
    Absorbed(usize),
}

/// A chain that may be converted.
#[derive(Clone, Copy)]
struct Subject<'s> {
    region: u64,
    level: Level,
    chain: Chain<'s>,
    first: Node<'s>,
    inside: &'s Inside<'s>,
}

/// Gives a leaf or a region the node that suits its entries and `more`, or none if there are
/// none but empty ones.
pub(super) fn convert(locked: &mut Locked<'_>, region: u64, level: Level, more: usize) -> Outcome {
    let table = locked.table;
    let inside = &table.enter();
    let chain = inside.chain(region).and_then(|chain| match level {
        Level::Region => Some(chain),
        Level::Leaf(leaf) => Some(chain.first()?.inner()?.leaf(leaf)),
    });
    let Some(chain) = chain else { return Outcome::Left };
    let Some(first) = chain.first() else { return Outcome::Left };
    let subject = Subject { region, level, chain, first, inside };
    let most = match level {
        Level::Leaf(_) => LEAF,
        Level::Region if first.inner().is_some() => FEW,
        Level::Region => PACKED_MAX,
    };
    let (kept, is_locked) = count(table, &subject, most);
    let kept = kept + more;
    if kept > most {
        return absorb(locked, &subject);
    }
    let kind = match level {
        Level::Leaf(_) => NodeKind::for_leaf(kept),
        Level::Region => NodeKind::packed(kept),
    };
    replace_chain(locked, &subject, (kept > 0).then_some(kind), is_locked)
}

/// Entries of a chain that are to stay, counted until there are more than `most`; and whether
/// one is locked.
fn count(table: &Table, subject: &Subject<'_>, most: usize) -> (usize, bool) {
    let (mut kept, mut is_locked) = (0, false);
    subject.first.all_entries(subject.level, |key, entry_ref| {
        kept += usize::from(is_kept(table, subject.region, key, &entry_ref));
        is_locked |= entry_ref.entry.is_locked();
        kept <= most
    });
    (kept, is_locked)
}

/// Returns whether an entry is to stay in the table.
fn is_kept(table: &Table, region: u64, key: u16, entry_ref: &EntryRef<'_>) -> bool {
    let stays = |floors: &Floors| floors.stays(index_of(region, key), entry_ref.row.generation());
    entry_ref.entry.peek() != Value::EMPTY || table.floors.as_ref().is_some_and(stays)
}

/// Replaces a chain by a node of that kind, if it is worth it, or by one in a lower place.
fn replace_chain(
    locked: &mut Locked<'_>,
    subject: &Subject<'_>,
    kind: Option<NodeKind>,
    is_locked: bool,
) -> Outcome {
    let (table, Subject { region, level, first, .. }) = (locked.table, *subject);
    let (before, _) = footprint(table, first);
    let is_worth_it =
        first.is_chain() || kind.map_or(0, |kind| table.nodes.bytes(kind)) * 4 <= before * 3;
    if is_locked {
        return if is_worth_it { Outcome::Busy } else { Outcome::Left };
    }
    // A dense node's own; others need none, and there is that of any entry.
    let key = match level {
        Level::Leaf(leaf) => leaf * LEAF,
        Level::Region => first.first_made(0).unwrap_or(0),
    };
    let values = || table.fresh_row(index_of(region, key as u16));
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

/// Has `to` named in place of the nodes of a chain, or of the packed ones if what is behind them
/// stays, once all their entries are frozen and `copy` was made of them; false if someone uses one
/// meanwhile: `undo` is told of each then.
///
/// # Safety
/// `copy` leaves in `to` what is to stay, and it is whole (zs-W1) and given up if it is named; or
/// it is the wide node that stays.
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
        Behind::Goes => first.all_entries(level, look),
        Behind::Stays => first.all_packed_entries(look),
    };
    // SAFETY: `convert` found the first node under this lock of its table (zs-W4).
    unsafe { chain.link().begin(retired, first.node_ref()) };
    let is_copied = all(&mut |_, entry_ref| entry_ref.entry.freeze()) && copy();
    // SAFETY: it was begun and all are frozen; the rest as the caller says.
    let mut install = || unsafe { chain.link().install(retired, first.node_ref(), to, behind) };
    if is_copied && install() {
        return true;
    }
    chain.link().give_up();
    all(&mut |key, entry_ref| {
        undo(key);
        // SAFETY: the conversion was given up.
        unsafe { entry_ref.entry.thaw() };
        true
    });
    false
}

/// Gives conversions up that may have frozen entry `index`, which someone inside found frozen.
/// Those that are done have it elsewhere.
pub(super) fn give_up(inside: &Inside<'_>, index: u32) {
    let (region, key) = split(index);
    let Some(chain) = inside.chain(region) else { return };
    chain.link().give_up();
    let inner = chain.first().and_then(Node::inner);
    inner.into_iter().for_each(|inner| inner.leaf(key as usize / LEAF).link().give_up());
    // SAFETY: it is the entry in force, and was frozen before, if at all (zs-T3).
    inside.find(index).into_iter().for_each(|entry_ref| unsafe { entry_ref.entry.thaw() });
}

/// Replaces the nodes of a chain, unless someone uses an entry there meanwhile; then `fresh`
/// comes back.
fn try_replace(
    locked: &mut Locked<'_>,
    subject: &Subject<'_>,
    mut fresh: Option<Fresh>,
) -> Result<(), Option<Fresh>> {
    let table = locked.table;
    let (_, before) = footprint(table, subject.first);
    let to = fresh.as_ref().map(Fresh::node_ref);
    let copy = || copy(table, subject, &mut fresh);
    // SAFETY: a fresh node is whole, all that is to stay is copied, and it is given up here.
    if unsafe { swap_nodes(locked, subject, (to, Behind::Goes), copy, |_| ()) } {
        let after = to.map_or(0, |to| to.kind.capacity());
        locked.making.room = locked.making.room - before + after;
        return Ok(());
    }
    Err(fresh)
}

/// Copies the entries that are to stay; false if there are more than were counted. What an
/// entry says that was thawed meanwhile does not matter: then nothing is committed.
fn copy(table: &Table, subject: &Subject<'_>, fresh: &mut Option<Fresh>) -> bool {
    let Subject { region, level, first, .. } = *subject;
    // A dense node has them all anyway.
    let all = fresh.as_ref().is_some_and(|fresh| fresh.node_ref().kind.is_dense());
    let copied = first.all_entries(level, |key, entry_ref| {
        let put =
            |fresh: &mut Fresh| fresh.put(key, entry_ref.entry.peek(), entry_ref.row.values());
        let stays = all || is_kept(table, region, key, &entry_ref);
        !stays || fresh.as_mut().is_some_and(put)
    });
    if let Some(floors) = table.floors.as_ref().filter(|_| copied && !all) {
        // Not before all are copied: this may change which are to stay.
        let fresh = fresh.as_ref().map(Fresh::node);
        first.all_entries(level, |key, entry_ref| {
            if fresh.is_none_or(|fresh| fresh.find(key).is_none()) {
                floors.dropped(index_of(region, key), entry_ref.row.generation());
            }
            true
        });
    }
    copied
}

/// Moves the entries of a region's packed nodes behind the inner node that they hide, if there
/// is one.
fn absorb(locked: &mut Locked<'_>, subject: &Subject<'_>) -> Outcome {
    let (table, Subject { region, first, inside, .. }) = (locked.table, *subject);
    let Some(inner) = first.inner().filter(|_| first.is_chain()) else {
        return Outcome::Left;
    };
    if !first.all_packed_entries(|_, entry_ref| !entry_ref.entry.is_locked()) {
        return Outcome::Busy;
    }
    let has_place = first.all_packed_entries(|key, entry_ref| {
        let leaf = key as usize / LEAF;
        let index = index_of(region, key);
        // SAFETY: it is that leaf's, of the region, in the table that `convert` found locked.
        let mut make =
            || unsafe { make_in(locked, inside, inner.leaf(leaf), Level::Leaf(leaf), index) };
        !is_kept(table, region, key, &entry_ref) || inner.find(key).is_some() || make().is_ok()
    });
    if !has_place {
        return Outcome::Busy;
    }
    let hide = |key: u16| {
        if let Some(hidden) = inner.find(key) {
            hidden.row.set_values(table.fresh_row(index_of(region, key)));
            // SAFETY: no one finds it, and the entry that hides it names what it named.
            unsafe { hidden.entry.retarget(hidden.entry.peek(), Value::EMPTY) };
        }
    };
    let (to, reveal) = (Some(inner.node_ref()), || reveal(table, subject, inner));
    // SAFETY: it is the wide node that stays, and has all that is to stay then.
    if !unsafe { swap_nodes(locked, subject, (to, Behind::Stays), reveal, hide) } {
        return Outcome::GivenUp;
    }
    let packed = || first.nodes().map(|part| part.kind()).filter(|kind| kind.is_packed());
    locked.making.room -= packed().map(NodeKind::capacity).sum::<usize>();
    Outcome::Absorbed(packed().map(|kind| table.nodes.bytes(kind)).sum())
}

/// Gives the hidden entries what those say that hide them; false if one has to have a place,
/// and none.
fn reveal(table: &Table, subject: &Subject<'_>, inner: Node<'_>) -> bool {
    let Subject { region, first, .. } = *subject;
    let moved = first.all_packed_entries(|key, entry_ref| match inner.find(key) {
        Some(hidden) => {
            hidden.row.set_values(entry_ref.row.values());
            // SAFETY: the entry that hides it is frozen, and is found no more once it is found.
            unsafe { hidden.entry.retarget(Value::EMPTY, entry_ref.entry.peek()) }
        }
        None => !is_kept(table, region, key, &entry_ref),
    });
    if let Some(floors) = table.floors.as_ref().filter(|_| moved) {
        first.all_packed_entries(|key, entry_ref| {
            if inner.find(key).is_none() {
                floors.dropped(index_of(region, key), entry_ref.row.generation());
            }
            true
        });
    }
    moved
}

/// Returns the bytes of all nodes from `node` on, and the entries they have room for.
fn footprint(table: &Table, node: Node<'_>) -> (usize, usize) {
    let (mut bytes, mut room) = (0, 0);
    node.each(|kind| {
        bytes += table.nodes.bytes(kind);
        room += kind.capacity();
    });
    (bytes, room)
}
