//! Where what lies in the memory that processes share, and how it is read by who has no part in it.
//!
//! ```text
//!   | head: 8 words | slots: 8 words each | rows: 64 words each |    slot n and row n are of one
//!   head: | magic, most held, used, is short, looked at, space, is told, - |
//!   slot: | process | held | may go | waits | wanted | changed | inherited | parent |      process
//!   row:  | process | what it has done: `Figures`, by their order | - | faults by their times |
//! ```
//! A process writes its own slot and row. Who adds up what is held reads slots alone: they lie
//! close together, and a row's memory is there once it was written.

use super::inherited::shared_bytes;
use crate::figures::{self, Figures};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"uzramtr4");
pub(super) const HEAD: usize = 8;
pub(super) const SLOT: usize = 8;
pub(super) const ROW: usize = figures::WORDS;
/// With them the head and the slots are 32 KiB.
const SLOTS: usize = 510;
/// A slot that becomes free is of this process.
pub(super) const CLEARED: u64 = u64::MAX;

/// The parts of shared memory, or of a copy of it.
#[derive(Debug)]
pub(super) struct Parts<'a, T> {
    pub(super) head: &'a [T; HEAD],
    pub(super) slots: &'a [[T; SLOT]],
    pub(super) rows: &'a [[T; ROW]],
}

/// The first words.
pub(super) struct Head<'a, T> {
    pub(super) magic: &'a T,
    pub(super) peak: &'a T,
    /// How many slots were ever used, from the first on.
    pub(super) used: &'a T,
    pub(super) is_short: &'a T,
    /// When processes that are gone were last looked for.
    pub(super) looked: &'a T,
    pub(super) space: &'a T,
    /// Whether a process has said that the limit can't be kept.
    pub(super) is_told: &'a T,
}

/// The words of a slot.
pub(super) struct Slot<'a, T> {
    /// 0: it is free.
    pub(super) process: &'a T,
    pub(super) held: &'a T,
    pub(super) may_go: &'a T,
    pub(super) waits: &'a T,
    /// When it last found no room, in milliseconds.
    pub(super) wanted: &'a T,
    /// What is no more as it was in pages that its children share: see `inherited`.
    pub(super) changed: &'a T,
    pub(super) inherited: &'a T,
    /// The number of its parent's slot and 1, where it shares some of its pages.
    pub(super) parent: &'a T,
}

impl<'a, T> Parts<'a, T> {
    /// Returns the parts of some words; `None`: there is no room for a slot and a row.
    pub(super) fn of(words: &'a [T]) -> Option<Self> {
        let (head, rest) = words.split_first_chunk()?;
        let count = rest.len() / (SLOT + ROW);
        let (slots, rows) = rest.split_at(count * SLOT);
        let rows = &rows.as_chunks().0[..count];
        (count > 0).then_some(Parts { head, slots: slots.as_chunks().0, rows })
    }
}

impl<'a, T> Head<'a, T> {
    pub(super) fn of(
        [magic, peak, used, is_short, looked, space, is_told, _]: &'a [T; HEAD],
    ) -> Self {
        Head { magic, peak, used, is_short, looked, space, is_told }
    }
}

impl<'a, T> Slot<'a, T> {
    pub(super) fn of(
        [process, held, may_go, waits, wanted, changed, inherited, parent]: &'a [T; SLOT],
    ) -> Self {
        Slot { process, held, may_go, waits, wanted, changed, inherited, parent }
    }
}

/// What the processes of a tree have said by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The space that numbers of its processes are of, as an inode in /proc; 0 before the first.
    pub space: u64,
    /// The most bytes that they held together.
    pub held_max: u64,
    /// Whether more is held than the limit has room for.
    pub is_short: bool,
    /// Those that have a slot. One that has just begun has no figures yet; one that has executed a
    /// program has those of what it did before.
    pub processes: Vec<Figures>,
}

impl Seen {
    /// The bytes of a tree's memory, in which at most 510 processes have their slots.
    pub const BYTES: usize = size_of::<u64>() * (HEAD + SLOTS * (SLOT + ROW));

    /// Reads a copy of a tree's memory; `None`: it is none, or one of another version. It may have
    /// been written by anyone: numbers are what they are.
    pub fn of(copy: &[u8]) -> Option<Self> {
        let words: Vec<u64> =
            copy.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let Parts { head, slots, rows } = Parts::of(&words)?;
        let head = Head::of(head);
        // Before the first process it is zeros.
        if !matches!(*head.magic, 0 | MAGIC) {
            return None;
        }
        let process = |(slot, row): (&[u64; SLOT], &[u64; ROW])| {
            let slot = Slot::of(slot);
            if matches!(*slot.process, 0 | CLEARED) {
                return None;
            }
            // A row may be left of one that had the slot before.
            let said = Some(Figures::of_words(row)).filter(|row| row.process == *slot.process);
            let parent = slots.get((*slot.parent as usize).wrapping_sub(1)).map(Slot::of);
            let shared =
                parent.map_or(0, |of| shared_bytes(*slot.inherited, *of.changed, *of.held));
            let (process, tree_held) = (*slot.process, slot.held.saturating_sub(shared));
            Some(Figures { process, tree_held, ..said.unwrap_or_default() })
        };
        let used = usize::try_from(*head.used).unwrap_or(usize::MAX);
        Some(Seen {
            space: *head.space,
            held_max: *head.peak,
            is_short: *head.is_short != 0,
            processes: slots.iter().zip(rows).take(used).filter_map(process).collect(),
        })
    }
}
