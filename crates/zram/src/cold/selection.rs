//! Which slots and blocks a job is for, the largest first.
//!
//! A first walk over all words counts objects by length. The next ones gather some of them, of the largest lengths
//! that are left; so a selection needs little memory, however many are chosen. All they see is of one moment: who works on
//! an item asks once more.

use crate::blocks::Stored;
use crate::buffer::with_room;
use crate::layout::{Layout, Whose};
use crate::slot::{self, IDLE, INCOMPRESSIBLE};
use crate::stat::Held;
use crate::table::Table;
use crate::{BLOCK, Error};
use std::ops::{Range, RangeInclusive};
use zsmalloc::{BesideSlot, ORDER_MAX, Old};

/// Bytes by which lengths differ that are told apart.
const BUCKET: usize = 64;
const BUCKETS: usize = (BLOCK << ORDER_MAX) / BUCKET + 1;
/// Items that are gathered at a time.
const GROUP: usize = 1 << 16;
/// Most words that one look shows: a leaf's.
const LEAF: usize = 512;

/// What must be true of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// Nothing.
    #[default]
    All,
    /// It was not accessed since it was marked idle.
    Idle,
    /// It is stored raw.
    Huge,
    /// Both.
    HugeIdle,
    /// No algorithm makes it smaller.
    Incompressible,
}

impl Which {
    pub(crate) fn is_idle(self) -> bool {
        matches!(self, Which::Idle | Which::HugeIdle)
    }
}

/// What a job is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// What must be true of a slot or block.
    pub which: Which,
    /// Slots, each alone or with the block it is in; empty for all there are.
    pub slots: Vec<RangeInclusive<u64>>,
}

impl Selection {
    /// All that are such.
    pub fn of(which: Which) -> Self {
        Selection { which, slots: Vec::new() }
    }

    /// Whether an object of `len` bytes and `flags` is what is looked for, where `whose` it is says how much it can be.
    pub(crate) fn takes(&self, layout: Layout, whose: Whose, len: usize, flags: u8) -> bool {
        let is_huge = match whose {
            Whose::Slot(_) => len == BLOCK,
            Whose::Block(_) => len == layout.block_bytes() || len % BLOCK == size_of::<u16>(),
        };
        let is_same = matches!(whose, Whose::Slot(_)) && slot::held(len) == Held::Same;
        !is_same
            && self.has(layout, whose)
            && match self.which {
                Which::All => true,
                Which::Idle => flags & IDLE != 0,
                Which::Huge => is_huge,
                Which::HugeIdle => is_huge && flags & IDLE != 0,
                Which::Incompressible => flags & INCOMPRESSIBLE != 0,
            }
    }

    /// The same of an object that can be looked at: of a block's length alone is not sure that it is huge.
    pub(crate) fn takes_object(
        &self,
        layout: Layout,
        whose: Whose,
        bytes: &[u8],
        flags: u8,
    ) -> bool {
        let is_sure = match (whose, self.which) {
            (Whose::Block(_), Which::Huge | Which::HugeIdle) => {
                Stored::new(bytes, flags, layout.slots()).is_some_and(|of| of.is_raw())
            }
            _ => true,
        };
        is_sure && self.takes(layout, whose, bytes.len(), flags)
    }

    fn has(&self, layout: Layout, whose: Whose) -> bool {
        let (first, last) = match whose {
            Whose::Slot(slot) => (slot, slot),
            Whose::Block(block) => {
                let first = layout.first_slot(block);
                (first, first + (layout.slots() - 1))
            }
        };
        let touches = |range: &RangeInclusive<u64>| {
            *range.start() <= u64::from(last) && u64::from(first) <= *range.end()
        };
        self.slots.is_empty() || self.slots.iter().any(touches)
    }
}

/// The words of what is chosen.
pub(crate) struct Chosen<'t, E: BesideSlot, F> {
    table: &'t Table<E>,
    takes: F,
    /// Items there were by bucket, when it began.
    counts: Vec<u32>,
    /// The buckets that are gone through, and from where to go on with them.
    group: Range<usize>,
    next: Option<u64>,
    /// They have room for a group and what one look adds to it; the last comes first.
    gathered: Vec<(u16, u32)>,
}

impl<'t, E: BesideSlot, F: Fn(Whose, usize, u8) -> bool> Chosen<'t, E, F> {
    pub(crate) fn new(table: &'t Table<E>, takes: F) -> Result<Self, Error> {
        let mut chosen = Chosen {
            table,
            takes,
            counts: vec![0; BUCKETS],
            group: BUCKETS..BUCKETS,
            next: None,
            gathered: with_room(GROUP + LEAF)?,
        };
        let (mut counts, mut next) = (vec![0; BUCKETS], Some(0));
        while let Some(from) = next {
            next = chosen.look(from, |_, bucket| counts[bucket] += 1);
        }
        chosen.counts = counts;
        Ok(chosen)
    }

    /// Shows `look` some items' words and buckets, from word `from` on; from where to go on.
    fn look(&self, from: u64, mut look: impl FnMut(u32, usize)) -> Option<u64> {
        let layout = self.table.shared.layout;
        self.table.pool.look_at_some(from, |word, held, _| {
            if let Old::Object { len, flags } = held
                && (self.takes)(layout.whose(word), len, flags)
            {
                look(word, len / BUCKET);
            }
        })
    }

    /// The next buckets to go through; false, if there are no more.
    fn next_group(&mut self) -> bool {
        let end = self.group.start;
        let mut count = 0;
        let fits = |bucket: &usize| {
            count += self.counts[*bucket] as usize;
            count <= GROUP
        };
        let start = (0..end).rev().take_while(fits).last();
        // One that has more than fit is gone through in stretches.
        let start = start.unwrap_or(end.saturating_sub(1));
        self.group = start..end;
        self.next = Some(0);
        end > 0
    }

    fn gather(&mut self) {
        let mut gathered = std::mem::take(&mut self.gathered);
        debug_assert!(gathered.is_empty());
        while gathered.len() < GROUP
            && let Some(from) = self.next
        {
            let group = self.group.clone();
            self.next = self.look(from, |word, bucket| {
                if group.contains(&bucket) {
                    gathered.push((bucket as u16, word));
                }
            });
        }
        // The last goes first: the largest, and of those the one with the lowest number.
        gathered.sort_unstable_by_key(|&(bucket, word)| (bucket, std::cmp::Reverse(word)));
        self.gathered = gathered;
    }
}

impl<E: BesideSlot, F: Fn(Whose, usize, u8) -> bool> Iterator for Chosen<'_, E, F> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some((_, word)) = self.gathered.pop() {
                return Some(word);
            }
            if self.next.is_none() && !self.next_group() {
                return None;
            }
            self.gather();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_compressed_are_not_huge_by_their_length() {
        let layout = Layout::new(4 * BLOCK, 100).unwrap();
        let huge = Selection::of(Which::Huge);
        // Of two slots, raw, and of four, compressed.
        for (members, is_huge) in [(0b0101_u16, true), (0b1111, false)] {
            let object = [&[1; 2 * BLOCK][..], &members.to_le_bytes()].concat();
            assert!(huge.takes(layout, Whose::Block(0), object.len(), 0));
            assert_eq!(huge.takes_object(layout, Whose::Block(0), &object, 0), is_huge);
            let all = Selection::default();
            assert!(all.takes_object(layout, Whose::Block(0), &object, 0));
        }
    }
}
