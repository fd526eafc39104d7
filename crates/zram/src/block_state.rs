//! The state of each slot: how it is stored, its flags, and the time of its last access.

#[cfg(test)]
mod tests;

use crate::Error;
use crate::block::BlockKind;
use crate::hook::hook;
use crate::layout::Item;
use crate::policy::STATES_PER_LOOK;
use crate::slot::{Flags, SlotKind};
use crate::table::{Origin, Table, blocks_from, boot_seconds, origin};
use std::fmt;
use std::vec;
use zsmalloc::{Old, Row};

/// The state of a slot that holds data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// The number of the slot.
    pub index: u64,
    /// The time of the last access in seconds since boot, or `None` if access times are not
    /// tracked.
    pub accessed_seconds: Option<u32>,
    /// Whether the slot repeats one pattern.
    pub is_same: bool,
    /// Whether the slot was written back and is not in memory.
    pub is_written_back: bool,
    /// Whether the slot is stored raw.
    pub is_huge: bool,
    /// Whether the slot is marked idle. An access removes the mark.
    pub is_idle: bool,
    /// The priority of the algorithm that compressed the slot; 0 is the device's own algorithm.
    pub priority: u8,
    /// Whether a recompression with the last algorithm saved too little memory.
    pub is_incompressible: bool,
}

impl SlotState {
    /// Returns the state of a slot with data in its own entry.
    fn of_slot(index: u32, kind: SlotKind, flags: Flags, accessed_seconds: Option<u32>) -> Self {
        SlotState {
            index: index as u64,
            accessed_seconds,
            is_same: kind == SlotKind::Same,
            is_written_back: matches!(kind, SlotKind::Backed(_)),
            is_huge: kind == SlotKind::Raw,
            is_idle: flags.has(Flags::IDLE),
            priority: flags.priority(),
            is_incompressible: flags.has(Flags::INCOMPRESSIBLE),
        }
    }

    /// Returns the state of a slot that is a live member of its block's object.
    fn of_member(index: u32, kind: BlockKind, flags: Flags, accessed: Option<u32>) -> Self {
        SlotState {
            is_written_back: matches!(kind, BlockKind::Backed(_)),
            is_huge: matches!(kind, BlockKind::Object { is_raw: true, .. }),
            ..Self::of_slot(index, SlotKind::Empty, flags, accessed)
        }
    }
}

impl fmt::Display for SlotState {
    /// Writes a line of the kernel's `block_state`: index, access time, and six letters or dots.
    /// The letters mean same-filled, written back, huge, idle, recompressed and incompressible.
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

/// The iterator that [`Device::block_state`](crate::Device::block_state) returns. It visits the
/// states of the slots that hold data.
#[derive(Debug)]
pub struct BlockState<'d> {
    table: &'d Table,
    /// The states that the iterator has read but not returned yet.
    some: vec::IntoIter<SlotState>,
    /// The slot from which the next states are read.
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
            let mut some = Vec::with_capacity(STATES_PER_LOOK);
            self.next = slot_states(self.table, self.next?, &mut some);
            self.some = some.into_iter();
        }
    }
}

/// Appends to `some` the states of slots in a few blocks, from slot `from` on. Returns the slot at
/// which the next call continues, or `None` at the end of the device.
fn slot_states(table: &Table, from: u64, some: &mut Vec<SlotState>) -> Option<u64> {
    let layout = table.layout;
    let mut blocks = blocks_from(table, from / u64::from(layout.slots()));
    for block in blocks.by_ref().take(STATES_PER_LOOK / layout.slots() as usize) {
        let before = some.len();
        while !block_slot_states(table, block, from, some) {
            some.truncate(before);
        }
    }
    blocks.next().map(|block| layout.first_slot(block).into())
}

/// Appends the states of a block's slots from `from` on. Returns false if the appended states are
/// invalid because the block was stored during the look-up.
fn block_slot_states(table: &Table, block: u32, from: u64, some: &mut Vec<SlotState>) -> bool {
    let (layout, is_here) = (table.layout, table.check_not_left_behind().is_ok());
    let entry = layout.has_blocks().then(|| layout.block_entry(block));
    let pin = entry.filter(|_| is_here).map(|entry| table.pool.read(entry));
    // The block's entry determines the state of a live member.
    let of_block = match &pin {
        Some(pin) => {
            let (content, row) = (pin.content(), pin.row());
            let kind = BlockKind::of(content, layout.slots());
            Some((kind, Flags::of(content), row.and_then(Row::access_time)))
        }
        None => entry.and_then(|entry| block_left_behind(table, entry)),
    };
    let of_block = of_block.filter(|(kind, ..)| *kind != BlockKind::Empty);
    let is_unpinned = pin.as_ref().is_some_and(|pin| pin.row().is_none());
    hook("states");
    for slot in layout.slots_of(block).filter(|&slot| u64::from(slot) >= from) {
        let own = table.pool.look_at(slot, |held, row| (held, row.access_time()));
        let own = own.filter(|(held, _)| SlotKind::of(*held) != SlotKind::Empty);
        some.extend(match origin(table, slot, is_unpinned, of_block, own) {
            Origin::Own((held, accessed)) => {
                let (kind, flags) = (SlotKind::of(held), Flags::of(held));
                let state = SlotState::of_slot(slot, kind, flags, accessed);
                Some(state).filter(|_| kind.is_stored())
            }
            Origin::Block((kind, flags, accessed)) => {
                Some(SlotState::of_member(slot, kind, flags, accessed))
            }
            Origin::Nothing => None,
            Origin::Changed => return false,
        });
    }
    true
}

/// Returns the content of a block's entry, in a child process that does not have the pool's pages.
fn block_left_behind(table: &Table, entry: u32) -> Option<(BlockKind, Flags, Option<u32>)> {
    let look = |held, row: Row<'_>| (held, row.access_time());
    let (held, accessed) = table.pool.look_at(entry, look)?;
    Some((BlockKind::of_old(held, table.layout.slots()), Flags::of(held), accessed))
}

/// Marks all slots and blocks idle if `age` is `None`. If `age` is a number, marks those that were
/// not accessed for more than `age` seconds, and removes the mark from all others.
pub(crate) fn mark_idle(table: &Table, age: Option<u64>) -> Result<(), Error> {
    if age.is_some() && !table.columns.access_time {
        return Err(Error::Untracked);
    }
    // If `age` exceeds the time since boot, no slot has that age.
    let before = age.map(|age| u64::from(boot_seconds()).saturating_sub(age));
    let is_idle = |row: Row<'_>| match (before, row.access_time()) {
        (Some(before), Some(accessed)) => u64::from(accessed) < before,
        _ => true,
    };
    let (mut next, mut entries) = (Some(0), Vec::new());
    while let Some(from) = next {
        next = table.pool.look_at_some(from, |entry, held, _| {
            if let Old::Object { .. } = held {
                entries.push(entry);
            }
        });
        for entry in entries.drain(..) {
            let is_slot = matches!(table.layout.item_of(entry), Item::Slot(_));
            table.pool.set_flags_if_unlocked(entry, |len, bits, row| {
                let flags = Flags::from_bits(bits);
                let chosen = match SlotKind::of_len(len) {
                    SlotKind::Same if is_slot => flags,
                    _ if is_idle(row) => flags.with(Flags::IDLE),
                    _ => flags.without(Flags::IDLE),
                };
                chosen.bits()
            });
        }
    }
    Ok(())
}
