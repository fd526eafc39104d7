//! What is known of each slot beside its data: how it is stored, its marks and when it was accessed.

use crate::slot::{self, IDLE, INCOMPRESSIBLE, PRIORITY};
use crate::stat::Held;
use crate::table::{AnyTable, Table};
use crate::{Error, clock};
use std::fmt;
use std::vec;
use zsmalloc::{BesideSlot, Old};

/// A slot that holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// Number of the slot.
    pub index: u64,
    /// When it was accessed last, in seconds since the machine was started; `None` where that is not tracked.
    pub accessed_seconds: Option<u32>,
    /// Whether it is one pattern over and over.
    pub is_same: bool,
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
    pub(crate) fn new(index: u32, held: Old, accessed_seconds: Option<u32>) -> Self {
        let mark = match held {
            Old::Object { mark, .. } => mark,
            Old::Inline(_) => 0,
        };
        let kind = slot::held_before(held);
        SlotState {
            index: index as u64,
            accessed_seconds,
            is_same: kind == Held::Same,
            is_huge: kind == Held::Raw,
            is_idle: mark & IDLE != 0,
            priority: mark & PRIORITY,
            is_incompressible: mark & INCOMPRESSIBLE != 0,
        }
    }
}

impl fmt::Display for SlotState {
    /// A line of the kernel's `block_state`: index, time of access, and a letter or a dot each for same, written
    /// back, huge, idle, recompressed, incompressible.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |is_so: bool, letter: char| if is_so { letter } else { '.' };
        write!(
            f,
            "{:12} {:12}.000000 {}{}{}{}{}{}",
            self.index,
            self.accessed_seconds.unwrap_or(0),
            letter(self.is_same, 's'),
            letter(false, 'w'),
            letter(self.is_huge, 'h'),
            letter(self.is_idle, 'i'),
            letter(self.priority > 0, 'r'),
            letter(self.is_incompressible, 'n'),
        )
    }
}

/// The slots that hold something, in their order: [`Device::block_state`](crate::Device::block_state).
#[derive(Debug)]
pub struct BlockState<'d> {
    table: &'d dyn AnyTable,
    /// Those looked at together.
    some: vec::IntoIter<SlotState>,
    /// From where to go on.
    next: Option<u64>,
}

impl<'d> BlockState<'d> {
    pub(crate) fn new(table: &'d dyn AnyTable, from: u64) -> Self {
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
            let mut some = Vec::new();
            self.next = self.table.states_of_some(self.next?, &mut some);
            self.some = some.into_iter();
        }
    }
}

impl<E: BesideSlot> Table<E> {
    /// Marks slots idle, those of at least that age or all.
    pub(crate) fn mark_slots_idle(&self, age: Option<u64>) -> Result<(), Error> {
        if age.is_some() && !E::STAMPED {
            return Err(Error::Untracked);
        }
        // Nothing is older than the machine's start.
        let before = age.map(|age| u64::from(clock::seconds()).saturating_sub(age));
        let is_idle = |beside: &E| match (before, beside.stamped()) {
            (Some(before), Some(accessed)) => u64::from(accessed) < before,
            _ => true,
        };
        let choose = |len, mark, beside: &E| match slot::held(len) {
            Held::Same => mark,
            _ if is_idle(beside) => mark | IDLE,
            _ => mark & !IDLE,
        };
        let (mut next, mut some) = (Some(0), Vec::new());
        while let Some(from) = next {
            next = self.states_of_some(from, &mut some);
            for state in some.drain(..).filter(|state| !state.is_same) {
                self.pool.remark(state.index as u32, choose);
            }
        }
        Ok(())
    }
}
