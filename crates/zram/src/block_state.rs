//! What is known of each slot beside its data: how it is stored, its flags and when it was
//! accessed.

use crate::blocks::Members;
use crate::cold::BackingPlace;
use crate::hook::hook;
use crate::layout::Item;
use crate::slot::{self, IDLE, INCOMPRESSIBLE, PRIORITY};
use crate::stats::{Counters, Held, MmStat};
use crate::table::Table;
use crate::{Error, blocks, clock, fill};
use std::fmt;
use std::vec;
use zsmalloc::{Content, Old, Row};

/// Slots that are looked at together: a block has 16 at most.
const STATES: usize = 64;
const _: () = assert!(STATES >= 1 << zsmalloc::ORDER_MAX);

/// A slot that holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// Number of the slot.
    pub index: u64,
    /// When it was accessed last, in seconds since the machine was started; `None` where that is
    /// not tracked.
    pub accessed_seconds: Option<u32>,
    /// Whether it is one pattern over and over.
    pub is_same: bool,
    /// Whether it was written back, and is not in memory.
    pub is_written_back: bool,
    /// Whether it is stored raw.
    pub is_huge: bool,
    /// Whether it was not accessed since it was marked idle.
    pub is_idle: bool,
    /// Which of the algorithms it was recompressed with, 0 for the first one.
    pub priority: u8,
    /// Whether no algorithm makes it smaller.
    pub is_incompressible: bool,
}

impl SlotState {
    fn new(index: u32, held: Held, flags: u8, accessed_seconds: Option<u32>) -> Self {
        SlotState {
            index: index as u64,
            accessed_seconds,
            is_same: held == Held::Same,
            is_written_back: matches!(held, Held::Away | Held::BlockAway { .. }),
            is_huge: matches!(held, Held::Raw | Held::Block { is_raw: true, .. }),
            is_idle: flags & IDLE != 0,
            priority: flags & PRIORITY,
            is_incompressible: flags & INCOMPRESSIBLE != 0,
        }
    }
}

impl fmt::Display for SlotState {
    /// A line of the kernel's `block_state`: index, time of access, and a letter or a dot each for
    /// same, written back, huge, idle, recompressed, incompressible.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |is_so: bool, letter: char| if is_so { letter } else { '.' };
        write!(
            f,
            "{:12} {:12}.000000 {}{}{}{}{}{}",
            self.index,
            self.accessed_seconds.unwrap_or(0),
            letter(self.is_same, 's'),
            letter(self.is_written_back, 'w'),
            letter(self.is_huge, 'h'),
            letter(self.is_idle, 'i'),
            letter(self.priority > 0, 'r'),
            letter(self.is_incompressible, 'n'),
        )
    }
}

/// The slots that hold something, in their order:
/// [`Device::block_state`](crate::Device::block_state).
#[derive(Debug)]
pub struct BlockState<'d> {
    table: &'d Table,
    /// Those looked at together.
    some: vec::IntoIter<SlotState>,
    /// From where to go on.
    next: Option<u64>,
}

impl<'d> BlockState<'d> {
    pub(crate) fn new(table: &'d Table, from: u64) -> Self {
        BlockState { table, some: vec::IntoIter::default(), next: Some(from) }
    }
}

impl Iterator for BlockState<'_> {
    type Item = SlotState;

    fn next(&mut self) -> Option<SlotState> {
        loop {
            if let Some(state) = self.some.next() {
                return Some(state);
            }
            let mut some = Vec::with_capacity(STATES);
            self.next = self.table.slot_states(self.next?, &mut some);
            self.some = some.into_iter();
        }
    }
}

impl Table {
    /// The states of some slots from `from` on, those of some blocks; from where to go on, if there
    /// may be more.
    pub(crate) fn slot_states(&self, from: u64, some: &mut Vec<SlotState>) -> Option<u64> {
        let layout = self.shared.layout;
        let mut blocks = self.blocks_from(from / u64::from(layout.slots()));
        for block in blocks.by_ref().take(STATES / layout.slots() as usize) {
            let before = some.len();
            while !self.block_slot_states(block, from, some) {
                some.truncate(before);
            }
        }
        blocks.next().map(|block| layout.first_slot(block).into())
    }

    /// The states of a block's slots from `from` on; false if it was made meanwhile, so that what
    /// was looked at is not it.
    fn block_slot_states(&self, block: u32, from: u64, some: &mut Vec<SlotState>) -> bool {
        let (layout, is_here) = (self.shared.layout, self.shared.check_not_left_behind().is_ok());
        let entry = layout.has_blocks().then(|| layout.block_entry(block));
        let pin = entry.filter(|_| is_here).map(|entry| self.pool.read(entry));
        // What there is to say of a slot in a block is its block's.
        let of_block = match &pin {
            Some(pin) => {
                let (content, row) = (pin.content(), pin.row());
                let held = blocks::held(content, layout.slots());
                Some((held, slot::flags_of(content), row.and_then(Row::access_time)))
            }
            None => entry.and_then(|entry| self.block_left_behind(entry)),
        };
        let of_block = of_block.filter(|(held, ..)| *held != Held::Nothing);
        let is_unpinned = pin.as_ref().is_some_and(|pin| pin.row().is_none());
        hook("states");
        for slot in layout.slots_of(block).filter(|&slot| u64::from(slot) >= from) {
            let own = self.pool.look_at(slot, |held, row| (held, row.access_time()));
            match own.filter(|(held, _)| *held != Old::Inline(0)) {
                None if is_unpinned && !self.is_unstored(slot) => return false,
                None => {
                    let of_block =
                        of_block.map(|(held, flags, at)| SlotState::new(slot, held, flags, at));
                    some.extend(of_block);
                }
                Some((held, accessed)) => {
                    let (kind, flags) = (slot::held_before(held), slot::flags_before(held));
                    let state = SlotState::new(slot, kind, flags, accessed);
                    some.extend(Some(state).filter(|_| kind != Held::Nothing));
                }
            }
        }
        true
    }

    /// What a block's entry says of it in a child that has not got its object.
    fn block_left_behind(&self, entry: u32) -> Option<(Held, u8, Option<u32>)> {
        let look = |held, row: Row<'_>| (held, row.access_time());
        let (held, accessed) = self.pool.look_at(entry, look)?;
        let kind = match held {
            Old::Object { len, .. } => Held::Block {
                bytes: len,
                slots: 0,
                is_raw: len == self.shared.layout.block_bytes(),
            },
            Old::Inline(_) => Held::BlockAway { slots: BackingPlace::of(held)?.slots },
        };
        Some((kind, slot::flags_before(held), accessed))
    }

    /// Marks slots idle, and blocks, those of at least that age or all.
    pub(crate) fn mark_slots_idle(&self, age: Option<u64>) -> Result<(), Error> {
        if age.is_some() && !self.columns.access_time {
            return Err(Error::Untracked);
        }
        // Nothing is older than the machine's start.
        let before = age.map(|age| u64::from(clock::seconds()).saturating_sub(age));
        let is_idle = |row: Row<'_>| match (before, row.access_time()) {
            (Some(before), Some(accessed)) => u64::from(accessed) < before,
            _ => true,
        };
        let (mut next, mut entries) = (Some(0), Vec::new());
        while let Some(from) = next {
            next = self.pool.look_at_some(from, |entry, held, _| {
                if let Old::Object { .. } = held {
                    entries.push(entry);
                }
            });
            for entry in entries.drain(..) {
                let is_slot = matches!(self.shared.layout.item_of(entry), Item::Slot(_));
                self.pool.set_flags_if_unlocked(entry, |len, flags, row| match slot::held(len) {
                    Held::Same if is_slot => flags,
                    _ if is_idle(row) => flags | IDLE,
                    _ => flags & !IDLE,
                });
            }
        }
        Ok(())
    }

    /// Asserts that counters equal the sums over entries (I4), and slots in blocks are there
    /// (zr-B2).
    pub(crate) fn check_entries(&self) {
        let layout = self.shared.layout;
        if layout.has_blocks() && self.shared.check_not_left_behind().is_err() {
            // A child has not got what there is to look at.
            return;
        }
        let sums = Counters::new(1);
        let mut places = Vec::new();
        for block in self.blocks_from(0) {
            let pin = layout.has_blocks().then(|| self.pool.read(layout.block_entry(block)));
            let content = pin.as_ref().map_or(Content::Inline(0), |pin| pin.content());
            for slot in layout.slots_of(block) {
                let held = self.pool.look_at(slot, |held, _| held).unwrap_or(Old::Inline(0));
                let is_hole = held == Old::Inline(fill::HOLE);
                assert!(
                    !is_hole || content != Content::Inline(0),
                    "slot {slot}: a hole in nothing"
                );
                places.extend(BackingPlace::of(held));
                sums.shard(0).changed(Held::Nothing, slot::held_before(held));
            }
            if content != Content::Inline(0) {
                places.extend(BackingPlace::of_content(content));
                self.check_block(block, content);
                sums.shard(0).changed(Held::Nothing, blocks::held(content, layout.slots()));
                sums.shard(0).changed_live([0, self.live_members(block).count()]);
            }
        }
        let (now, sum) = (self.shared.counters.mm_stat(), sums.mm_stat());
        assert_eq!(now, MmStat { huge_pages_since: now.huge_pages_since, ..sum });
        assert_eq!(self.shared.counters.in_objects(), sums.in_objects());
        self.shared.store.iter().for_each(|store| store.check(&places));
    }

    /// Asserts that a block holds something, and that its object, if it is here, has the slots that
    /// are in it.
    fn check_block(&self, block: u32, content: Content<'_>) {
        let live = self.live_members(block);
        assert!(live != Members::default(), "block {block} has an object, but no slot");
        if BackingPlace::of_content(content).is_none() {
            let members = match self.block_object(block, content) {
                Ok(Some(stored)) => stored.members,
                _ => panic!("block {block}: {content:?}"),
            };
            let others = live.without(members);
            assert!(others == Members::default(), "block {block}: {others:?} not in {members:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::build_table;
    use crate::hook::with_hook;
    use crate::save::{Damage, SaveOptions};
    use crate::{Compaction, Config, Device, SLOT_BYTES};
    use std::sync::Arc;

    const SLOTS: u64 = 1 << 20;
    /// Of four blocks that lie far apart: a leaf and a stem of entries from each other.
    const FIRST: [u64; 4] = [0, 4096, 80_000, 900_000];

    fn table() -> Arc<Table> {
        let disksize = SLOTS * SLOT_BYTES as u64;
        let compaction = Compaction::Manual;
        build_table(Config { block: 4 * SLOT_BYTES, compaction, ..Config::new(disksize).unwrap() })
            .unwrap()
    }

    fn bytes() -> Vec<u8> {
        b"words that compress, and a few more; ".repeat(500)[..4 * SLOT_BYTES].to_vec()
    }

    /// All are stored by slots.
    fn by_slots(table: &Table) {
        for first in FIRST {
            for (nth, slot) in bytes().chunks(SLOT_BYTES).enumerate() {
                table.write((first + nth as u64) * SLOT_BYTES as u64, slot).unwrap();
            }
        }
    }

    /// All are stored by blocks, and there are no entries of slots any more.
    fn by_blocks(table: &Table) {
        FIRST.iter().for_each(|first| table.write(first * SLOT_BYTES as u64, &bytes()).unwrap());
        table.compact();
        table.check();
    }

    fn stored(table: &Table) -> Vec<u64> {
        BlockState::new(table, 0).map(|state| state.index).collect()
    }

    fn expected() -> Vec<u64> {
        FIRST.iter().flat_map(|first| *first..first + 4).collect()
    }

    /// What is stored all the time is no hole, though slots become blocks between the looks at the
    /// one and the other.
    #[test]
    fn slots_that_become_a_block_meanwhile_are_no_hole() {
        for place in ["states", "walk"] {
            let table = table();
            by_slots(&table);
            assert_eq!(stored(&table), expected());
            let its = table.clone();
            let found = with_hook(place, move || by_blocks(&its), || stored(&table));
            assert_eq!(found, expected(), "{place}");
            assert_eq!(stored(&table), expected());
        }
    }

    /// A save has them, too.
    #[test]
    fn slots_that_become_a_block_meanwhile_are_saved() {
        let table = table();
        by_slots(&table);
        let (its, mut file) = (table.clone(), Vec::new());
        let saved = with_hook(
            "walk",
            move || by_blocks(&its),
            || table.save_to(&mut file, &SaveOptions::default()).unwrap(),
        );
        assert_eq!(saved.slots, 16);
        let device = Device::new(Config::new(SLOTS * SLOT_BYTES as u64).unwrap()).unwrap();
        device.restore_from(&mut &file[..], Damage::Refuse).unwrap();
        for first in FIRST {
            let mut back = vec![0; 4 * SLOT_BYTES];
            device.read(first * SLOT_BYTES as u64, &mut back).unwrap();
            assert!(back == bytes(), "block of slot {first}");
        }
    }

    /// Blocks and slots in turn, while others look.
    #[test]
    fn nothing_stored_is_a_hole_beside_a_writer_of_blocks() {
        let table = table();
        by_slots(&table);
        let rounds = if std::env::var_os("UZRAM_LONG").is_some() { 20_000 } else { 200 };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..rounds {
                    by_blocks(&table);
                    by_slots(&table);
                }
            });
            while !writer.is_finished() {
                assert_eq!(stored(&table), expected());
            }
        });
    }
}
