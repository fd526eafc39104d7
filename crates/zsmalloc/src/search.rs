//! The search for a slot of a locked class, and for zspages between which objects move.
#![allow(unsafe_code)]

use crate::Error;
use crate::class::FULL;
use crate::class_guard::{ClassGuard, NewSlot};
use crate::policy::ALIKE_MAX;
use crate::zspage::Header;
use page::{ExtentId, page_size};

/// The condition that a free slot must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The lowest slot of the fullest zspage with a free slot.
    Lowest,
    /// A slot whose pages are all committed, in one of the fullest zspages. At most this number of
    /// zspages are searched. This variant is for a pool at its limit.
    Committed(usize),
}

type Found<'g> = (ExtentId, u32, Header<'g>);

/// Allocates a slot for an object. Returns `None` if no slot satisfies `search`.
pub(crate) fn alloc_slot(
    locked: &mut ClassGuard<'_>,
    entry: u32,
    search: Search,
) -> Result<Option<NewSlot>, Error> {
    let Some((id, slot, header)) = find(locked, search) else { return Ok(None) };
    // SAFETY: `find` has just found the slot free, under this lock.
    let new = unsafe { locked.take(id, header, slot, entry) }?;
    Ok(Some(locked.count(new)))
}

/// Returns the lowest free slot of a zspage that satisfies `search`. The fullest group is searched
/// first, beginning at the head of the group's list.
fn find<'g>(locked: &'g ClassGuard<'_>, search: Search) -> Option<Found<'g>> {
    let mut partial = fullest_first(locked).flat_map(|group| locked.group(group));
    match search {
        Search::Lowest => {
            first_with_room(locked).or_else(|| partial.find_map(|id| lowest(locked, id)))
        }
        Search::Committed(_) if !has_committed_room(locked) => None,
        Search::Committed(most) => partial.take(most).find_map(|id| {
            let header = locked.header(id);
            header.lowest_committed().map(|slot| (id, slot, header))
        }),
    }
}

/// Returns the groups that have zspages with a free slot, the fullest first.
fn fullest_first(locked: &ClassGuard<'_>) -> impl Iterator<Item = usize> + use<> {
    let mut groups = locked.state.groups;
    std::iter::from_fn(move || {
        let group = groups.checked_ilog2()?;
        groups &= !(1 << group);
        Some(group as usize)
    })
}

/// Returns the lowest free slot of the first zspage in the fullest group with a free slot. Returns
/// `None` if all free slots of that zspage are withheld.
pub(crate) fn first_with_room<'g>(locked: &'g ClassGuard<'_>) -> Option<Found<'g>> {
    let fullest = locked.state.groups.checked_ilog2()?;
    lowest(locked, locked.state.by_fullness[fullest as usize].first()?)
}

fn lowest<'g>(locked: &'g ClassGuard<'_>, id: ExtentId) -> Option<Found<'g>> {
    let header = locked.header(id);
    header.lowest_free().map(|slot| (id, slot, header))
}

/// Returns whether the committed pages could hold another object if the objects were packed.
fn has_committed_room(locked: &ClassGuard<'_>) -> bool {
    let bytes = locked.state.committed as u64 * page_size() as u64;
    bytes >= (locked.state.inuse as u64 + 1) * locked.class().size() as u64
}

/// Returns the source and the target of moves, if moves can free pages or a zspage. Among the
/// zspages that are neither empty nor full, the emptiest is the source, and the fullest is the
/// target. If zspages are about equally full, objects move from the last to the first, so that
/// headers and descriptors also stay close together. If only one zspage is left, and zspages are
/// committed page by page, that zspage is both source and target, and its objects move to lower
/// slots. A zspage in `skipped` is never the source.
pub(crate) fn pick_source_and_target(
    locked: &ClassGuard<'_>,
    skipped: &[ExtentId],
) -> Option<(ExtentId, ExtentId)> {
    let needed = locked.state.inuse.div_ceil(locked.class().objects());
    let saves_pages = locked.gain() > 0;
    if !saves_pages && locked.state.zspages <= needed {
        return None;
    }
    let of_group = |group| locked.group(group).take(ALIKE_MAX);
    let mut emptiest = (1..FULL).map(of_group);
    let source = emptiest.find_map(|ids| ids.filter(|id| !skipped.contains(id)).max())?;
    let mut fullest = (1..FULL).rev().map(of_group);
    let target = fullest.find_map(|ids| ids.filter(|&id| id != source).min());
    let target = target.or((saves_pages && !locked.class().commits_whole).then_some(source))?;
    Some((source, target))
}
