//! A copy of a group's shared memory, as read by a process outside the group.

use crate::figures::Figures;
use crate::inherited::Shares;
use crate::layout::{
    CLEARED, EXECUTES, GroupRow, HEAD, Head, MAGIC, Parts, ROW, SLOT, SLOTS, Slot, UNREPORTED,
    name_of, shared_bytes,
};

/// Whether a process has a slot in its group, or how the process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// The process has a slot. A killed process keeps its slot until another process detects its
    /// end.
    #[default]
    Present,
    /// The process has a slot. The process was about to execute a program, or to continue without
    /// the runtime.
    Executes,
    /// The process exited, but could not report its figures.
    Unreported,
    /// The process ended without a report, probably because a signal killed it. Another process has
    /// freed its slot.
    Killed,
}

/// A process of a group, as described by the shared memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSnapshot {
    /// The name of the process's program when the process joined the group. The name has at most 15
    /// bytes, and is empty if unknown.
    pub name: String,
    /// Whether the process has a slot, or how it ended.
    pub presence: Presence,
    /// The last figures that the process published. A process that has just begun has no figures
    /// yet. After `execve`, the figures of the previous program are included.
    pub figures: Figures,
}

/// The figures of the processes of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// The inode in /proc of the processes' PID namespace, or 0 before the first process joins.
    pub space: u64,
    /// The maximum number of bytes that all processes held together.
    pub held_max: u64,
    /// Whether the processes hold more than the limit minus its reserve.
    pub is_short: bool,
    /// The processes that have a slot, and the processes that ended without a report.
    pub processes: Vec<ProcessSnapshot>,
}

impl GroupSnapshot {
    /// The size of a group's shared memory in bytes, with slots for 510 processes.
    pub const BYTES: usize = size_of::<u64>() * (HEAD + SLOTS * (SLOT + ROW));

    /// Reads a copy of a group's memory. Returns `None` if the copy belongs to no group, or to a
    /// group of another version. Any process may have written to the memory, so the numbers in the
    /// copy can have any values.
    pub fn of(copy: &[u8]) -> Option<Self> {
        let words: Vec<u64> =
            copy.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let Parts { head, slots, rows } = Parts::of(&words)?;
        let head = Head::of(head);
        // The memory contains zeros before the first process takes a slot.
        if !matches!(*head.magic, 0 | MAGIC) {
            return None;
        }
        let process = |(slot, row): (&[u64; SLOT], &GroupRow<u64>)| {
            let slot = Slot::of(slot);
            let name = name_of(slot.name().map(|word| *word));
            let row = Figures::of_words(row);
            if matches!(*slot.process, 0 | CLEARED) {
                let presence = match *slot.end {
                    0 => Presence::Killed,
                    UNREPORTED => Presence::Unreported,
                    // The process has executed a program or continued without the runtime, so it is
                    // not listed.
                    _ => return None,
                };
                return (row.process != 0).then_some(ProcessSnapshot {
                    name,
                    presence,
                    figures: row,
                });
            }
            // The row may still belong to the previous process of the slot.
            let said = Some(row).filter(|row| row.process == *slot.process);
            let parent = slots.get((*slot.parent as usize).wrapping_sub(1)).map(Slot::of);
            let shares = parent.map(|parent| Shares::of(&slot, &parent)).unwrap_or_default();
            let (process, (tree_held, _)) = (*slot.process, shares.counted(*slot.held, 0));
            let tree_held = tree_held.saturating_add(shared_bytes(*slot.shared));
            let figures = Figures { process, tree_held, ..said.unwrap_or_default() };
            let executes = *slot.end == EXECUTES;
            let presence = if executes { Presence::Executes } else { Presence::Present };
            Some(ProcessSnapshot { name, presence, figures })
        };
        let used = usize::try_from(*head.used).unwrap_or(usize::MAX);
        Some(GroupSnapshot {
            space: *head.space,
            held_max: *head.peak,
            is_short: *head.is_short != 0,
            processes: slots.iter().zip(rows).take(used).filter_map(process).collect(),
        })
    }
}
