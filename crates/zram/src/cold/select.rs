//! Selects a job's slots and blocks, the largest first.
//!
//! A first walk over all entries counts the objects of each length. Each further walk collects a
//! limited number of objects, those with the greatest lengths that remain. So a selection needs
//! little memory for any number of objects. A collected object can change before the job processes
//! it, so the job checks the object again.

use crate::block::BlockObject;
use crate::layout::{Item, Layout};
use crate::policy::{SELECT_BUCKET_BYTES, SELECT_ITEMS_MAX, WALK_STEP_ENTRIES};
use crate::slot::{Flags, SlotKind};
use crate::table::Table;
use crate::try_vec::with_room;
use crate::{Error, SLOT_BYTES};
use std::ops::{Range, RangeInclusive};
use zsmalloc::{Content, ORDER_MAX, Old};

const BUCKETS: usize = (SLOT_BYTES << ORDER_MAX) / SELECT_BUCKET_BYTES + 1;

/// The condition that an item, which is a slot or a block, must meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// No condition.
    #[default]
    All,
    /// The item has not been accessed since it was marked idle.
    Idle,
    /// The item is stored raw.
    Huge,
    /// The item is both huge and idle.
    HugeIdle,
    /// A recompression with the last algorithm saved too little memory.
    Incompressible,
}

impl Which {
    /// Returns true if a locked entry still contains the object that was copied (zr-X1). If the
    /// condition requires an idle item, an item that was read since the copy counts as changed.
    pub(super) fn is_unchanged(self, now: Content<&[u8]>, seen: Content<&[u8]>) -> bool {
        let (now_flags, seen_flags) = (Flags::of(now), Flags::of(seen));
        let (Content::Object { bytes: now, .. }, Content::Object { bytes: seen, .. }) = (now, seen)
        else {
            return false;
        };
        let is_touched =
            matches!(self, Which::Idle | Which::HugeIdle) && !now_flags.has(Flags::IDLE);
        !is_touched && now_flags.priority() == seen_flags.priority() && now == seen
    }
}

/// The slots and blocks that a job processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The condition that a slot or block must meet.
    pub which: Which,
    /// The ranges of slots. A slot selects its whole block. An empty list selects all slots of the
    /// device.
    pub slots: Vec<RangeInclusive<u64>>,
}

impl Selection {
    /// Selects all slots of the device that meet the condition.
    pub fn of(which: Which) -> Self {
        Selection { which, slots: Vec::new() }
    }

    /// Returns true if an object of `len` bytes with these `flags` may meet the condition. `item`
    /// is the object's slot or block.
    pub(crate) fn matches_kind(
        &self,
        layout: Layout,
        item: Item,
        len: usize,
        flags: Flags,
    ) -> bool {
        let is_huge = match item {
            Item::Slot(_) => len == SLOT_BYTES,
            Item::Block(_) => len == layout.block_bytes() || len % SLOT_BYTES == size_of::<u16>(),
        };
        let is_same = matches!(item, Item::Slot(_)) && SlotKind::of_len(len) == SlotKind::Same;
        !is_same
            && self.has(layout, item)
            && match self.which {
                Which::All => true,
                Which::Idle => flags.has(Flags::IDLE),
                Which::Huge => is_huge,
                Which::HugeIdle => is_huge && flags.has(Flags::IDLE),
                Which::Incompressible => flags.has(Flags::INCOMPRESSIBLE),
            }
    }

    /// Returns true if the object meets the condition. The check needs the object's bytes, because
    /// the length of a block's object does not determine whether the block is huge.
    pub(crate) fn matches_object(
        &self,
        layout: Layout,
        item: Item,
        bytes: &[u8],
        flags: Flags,
    ) -> bool {
        let is_sure = match (item, self.which) {
            (Item::Block(_), Which::Huge | Which::HugeIdle) => {
                BlockObject::new(bytes, flags, layout.slots()).is_some_and(|of| of.is_raw())
            }
            _ => true,
        };
        is_sure && self.matches_kind(layout, item, bytes.len(), flags)
    }

    fn has(&self, layout: Layout, item: Item) -> bool {
        let slots = match item {
            Item::Slot(slot) => slot..slot + 1,
            Item::Block(block) => layout.slots_of(block),
        };
        let touches = |range: &RangeInclusive<u64>| {
            *range.start() < u64::from(slots.end) && u64::from(slots.start) <= *range.end()
        };
        self.slots.is_empty() || self.slots.iter().any(touches)
    }
}

/// An iterator over the entries of the selected items. Each entry is prefetched before it is
/// returned.
pub(super) struct Candidates<'t, F> {
    table: &'t Table,
    matches: F,
    /// The number of items in each bucket when the selection began.
    counts: Vec<u32>,
    /// The buckets of the current group, and the entry at which the walk of this group continues.
    group: Range<usize>,
    next: Option<u64>,
    /// The collected items. The capacity suffices for `SELECT_ITEMS_MAX` items, and for the items
    /// that one step of the walk adds. Items are returned from the end.
    gathered: Vec<(u16, u32)>,
}

impl<'t, F: Fn(Item, usize, Flags) -> bool> Candidates<'t, F> {
    pub(crate) fn new(table: &'t Table, takes: F) -> Result<Self, Error> {
        let mut candidates = Candidates {
            table,
            matches: takes,
            counts: vec![0; BUCKETS],
            group: BUCKETS..BUCKETS,
            next: None,
            gathered: with_room(SELECT_ITEMS_MAX + WALK_STEP_ENTRIES)?,
        };
        let (mut counts, mut next) = (vec![0; BUCKETS], Some(0));
        while let Some(from) = next {
            next = candidates.visit_from(from, |_, bucket| counts[bucket] += 1);
        }
        candidates.counts = counts;
        Ok(candidates)
    }

    /// Visits a batch of entries that begins at `from`. Calls `look` with the entry and the bucket
    /// of each matching item. Returns the entry at which the next batch begins, or `None` at the
    /// end of the device.
    fn visit_from(&self, from: u64, mut look: impl FnMut(u32, usize)) -> Option<u64> {
        let layout = self.table.layout;
        self.table.pool.look_at_some(from, |entry, held, _| {
            if let Old::Object { bytes: len, flags } = held
                && (self.matches)(layout.item_of(entry), len, Flags::from_bits(flags))
            {
                look(entry, len / SELECT_BUCKET_BYTES);
            }
        })
    }

    /// Advances to the next group of buckets. Returns false if no group remains.
    fn next_group(&mut self) -> bool {
        let end = self.group.start;
        let mut count = 0;
        let fits = |bucket: &usize| {
            count += self.counts[*bucket] as usize;
            count <= SELECT_ITEMS_MAX
        };
        let start = (0..end).rev().take_while(fits).last();
        // A bucket with more items than `SELECT_ITEMS_MAX` is a group of its own, which is
        // collected in several parts.
        let start = start.unwrap_or(end.saturating_sub(1));
        self.group = start..end;
        self.next = Some(0);
        end > 0
    }

    fn collect_group(&mut self) {
        let mut gathered = std::mem::take(&mut self.gathered);
        debug_assert!(gathered.is_empty());
        while gathered.len() < SELECT_ITEMS_MAX
            && let Some(from) = self.next
        {
            let group = self.group.clone();
            self.next = self.visit_from(from, |entry, bucket| {
                if group.contains(&bucket) {
                    gathered.push((bucket as u16, entry));
                }
            });
        }
        // Items are returned from the end of the list: larger items first, and items of equal size
        // in ascending order of their numbers.
        gathered.sort_unstable_by_key(|&(bucket, entry)| (bucket, std::cmp::Reverse(entry)));
        self.gathered = gathered;
    }
}

impl<F: Fn(Item, usize, Flags) -> bool> Iterator for Candidates<'_, F> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some((_, entry)) = self.gathered.pop() {
                self.gathered.last().inspect(|(_, next)| self.table.pool.prefetch(*next));
                return Some(entry);
            }
            if self.next.is_none() && !self.next_group() {
                return None;
            }
            self.collect_group();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_compressed_are_not_huge_by_their_length() {
        let layout = Layout::new(4 * SLOT_BYTES, 100).unwrap();
        let huge = Selection::of(Which::Huge);
        // Two slots stored raw, and four slots compressed, have objects of the same length.
        for (members, is_huge) in [(0b0101_u16, true), (0b1111, false)] {
            let object = [&[1; 2 * SLOT_BYTES][..], &members.to_le_bytes()].concat();
            let (block, flags) = (Item::Block(0), Flags::NONE);
            assert!(huge.matches_kind(layout, block, object.len(), flags));
            assert_eq!(huge.matches_object(layout, block, &object, flags), is_huge);
            let all = Selection::default();
            assert!(all.matches_object(layout, block, &object, flags));
        }
    }
}
