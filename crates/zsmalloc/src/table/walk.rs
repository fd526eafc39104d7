//! Look-ups, and walks over the nodes of spans and leaves.

use super::layout::{LEAF, Level, NodeKind};
use super::locks::EntryRef;
use super::node::{Chain, Node};
use crate::entry::Presence;
use std::ptr::from_ref;

/// Returns the present place of `key` in a span's chain.
#[inline(always)]
pub(super) fn find<'s>(chain: Chain<'s>, key: u16) -> Option<EntryRef<'s>> {
    let first = chain.first()?;
    if first.kind() == NodeKind::Inner {
        let leaf = first.leaf(key as usize / LEAF).first()?;
        if leaf.kind() == NodeKind::Dense {
            let place = leaf.dense_place(key as usize % LEAF);
            if place.entry.is_present() {
                return Some(place);
            }
        }
    }
    search(chain, key)
}

/// As [`find`], for an entry that may be in any node, or is being moved. A thread that passes the
/// entry's new place before the move, and the old place after it, finds only absent places. So it
/// searches again. While the thread is counted as a reader, the entry is not moved again (zs-T3).
/// If two searches find the same copy, and no present place, the old place is absent. The thread
/// then completes the move (zs-T2).
#[allow(unsafe_code)]
#[inline(never)]
fn search<'s>(chain: Chain<'s>, key: u16) -> Option<EntryRef<'s>> {
    let (mut seen, mut has_looked_again) = (None, false);
    loop {
        let (mut arriving, mut is_absent) = (None, false);
        let mut places = chain.first()?.path(key).filter_map(|node| node.place(key));
        let present = places.find(|place| match place.entry.presence() {
            Presence::Present => true,
            Presence::Arriving => {
                arriving = Some(*place);
                false
            }
            Presence::Absent => {
                is_absent = true;
                false
            }
        });
        if present.is_some() {
            return present;
        }
        match arriving {
            Some(place) if seen == Some(from_ref(place.entry)) => {
                // SAFETY: this thread has found no present place on the whole path, after it had
                // seen the copy, so the old place is absent.
                unsafe { place.entry.arrive() };
                return arriving;
            }
            Some(place) => seen = Some(from_ref(place.entry)),
            None if is_absent && !has_looked_again => has_looked_again = true,
            None => return None,
        }
    }
}

/// Returns whether `look` returns true for each present entry from `first` on, in a chain of level
/// `level`. No entry is moved during the call, except by `look`.
pub(super) fn all_entries<'s>(
    first: Node<'s>,
    level: Level,
    look: &mut dyn FnMut(u16, EntryRef<'s>) -> bool,
) -> bool {
    let mut look_at = |key, place: EntryRef<'s>| !place.entry.is_present() || look(key, place);
    first.nodes().all(|node| match (node.kind(), level) {
        (NodeKind::Dense, Level::Leaf(leaf)) => {
            (0..LEAF).all(|nth| look_at((leaf * LEAF + nth) as u16, node.dense_place(nth)))
        }
        (NodeKind::Inner, _) => node.leaves().all(|(leaf, chain)| {
            chain.first().is_none_or(|first| all_entries(first, Level::Leaf(leaf), &mut look_at))
        }),
        _ => node.packed_places().all(|(key, place)| look_at(key, place)),
    })
}

/// Returns a bit for each key of a leaf, which is 1 if a node on the key's path has a place for it.
pub(super) fn keys_of(chain: Chain<'_>, leaf: usize) -> [u64; LEAF.div_ceil(64)] {
    let mut keys = [0; LEAF.div_ceil(64)];
    for node in chain.first().into_iter().flat_map(|first| first.path((leaf * LEAF) as u16)) {
        if node.kind() == NodeKind::Dense {
            return std::array::from_fn(|nth| u64::MAX >> (64 - (LEAF - nth * 64).min(64)));
        }
        let of_leaf = node.packed().0.iter().filter(|&&key| key as usize / LEAF == leaf);
        of_leaf.for_each(|&key| keys[key as usize % LEAF / 64] |= 1 << (key % 64));
    }
    keys
}

/// Returns the first key at or after `from` for which a span's chain may have an entry. For a leaf
/// behind an inner node, this is the leaf's first key, or `from` if it is in the leaf.
pub(super) fn first_made(chain: Chain<'_>, from: usize) -> Option<usize> {
    let keys = chain.nodes().flat_map(|node| node.packed().0).map(|&key| key as usize);
    let packed = keys.filter(|&key| key >= from).min();
    let leaves = chain.wide().into_iter().flat_map(|inner| inner.leaves());
    let leaf = leaves.map(|(leaf, _)| leaf).find(|&leaf| leaf >= from / LEAF);
    packed.into_iter().chain(leaf.map(|leaf| from.max(leaf * LEAF))).min()
}

/// Calls `look` with all nodes from `first` on, including the nodes below an inner node.
pub(super) fn each_node<'s>(first: Node<'s>, look: &mut dyn FnMut(Node<'s>)) {
    for node in first.nodes() {
        look(node);
        node.leaves().flat_map(|(_, chain)| chain.nodes()).for_each(&mut *look);
    }
}
