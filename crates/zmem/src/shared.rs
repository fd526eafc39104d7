//! Blocks that are closed at a fork, because a copy of each would take too much memory. Parent and
//! child have the same pages, which count once until one of the two touches them (zm-L16).
//!
//! ```text
//!   fork:    Resident -> closed -> Shared, in the parent and so in the child
//!   touch:   room is made -> its group is opened -> Resident
//!
//!   mappings:  | Shared    | touched | Shared | touched | Shared  |      as many groups as
//!              '---------- groups of the same size -------------'        may be mappings
//! ```

use crate::pager::Pager;
use crate::policy::{PIECE, SHARED_BYTES};
use crate::state::State;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl Pager {
    /// Closes all resident blocks that are not pinned. The caller has closed the gate, so no other
    /// thread changes a block.
    pub(crate) fn share_all(&self) {
        // In a copy of the process, the thread that holds the lock may be missing.
        let Some(evictor) = self.evictor.try_lock() else { return };
        let group = self.set_group();
        let (mut piece, mut groups) = (0, self.groups_max());
        while piece < evictor.pieces
            && let Some(open) = self.next_open_piece(piece)
        {
            // A chunk may have several pieces, or a piece several chunks.
            let Range { start, end } = self.units_of(open);
            let end = self.units_of_chunk(start).end.max(end);
            piece = end.div_ceil(PIECE);
            let takes = |unit: usize| self.try_own_unpinned(unit);
            self.for_runs(start..end, usize::MAX, takes, |run| {
                let needed = run.len().div_ceil(group);
                if run.len() < group || needed > groups {
                    return run
                        .for_each(|unit| self.words[unit].publish(State::Resident, |word| word));
                }
                groups -= needed;
                self.close(run, State::Shared);
            });
        }
    }

    /// Returns how many groups may be mappings.
    fn groups_max(&self) -> usize {
        (2 * self.probation_max).max(1)
    }

    /// Computes and stores how many blocks a touch opens: the groups are large enough that each may
    /// be a mapping if every other one is touched.
    fn set_group(&self) -> usize {
        let least = (SHARED_BYTES / self.blocks.unit).max(1);
        let most = self.chunk_bytes / self.blocks.unit;
        let needed = self.limit.resident().div_ceil(self.groups_max());
        let group = needed.next_power_of_two().clamp(least, most.max(least));
        self.group.store(group, Relaxed);
        group
    }

    /// Returns the blocks that a touch of `unit` opens: its group, or its chunk if no process
    /// shares the blocks any more.
    pub(crate) fn group_of(&self, unit: usize) -> Range<usize> {
        let (group, chunk) = (self.group.load(Relaxed), self.units_of_chunk(unit));
        if !self.limit.is_sharing() {
            return chunk;
        }
        let start = chunk.start + (unit - chunk.start) / group * group;
        start..chunk.end.min(start + group)
    }

    /// Opens the shared blocks among `units`. They are this process's own from then on.
    pub(crate) fn unshare(&self, units: Range<usize>) {
        let takes = |unit: usize| {
            let seen = self.words[unit].load();
            seen.state() == State::Shared && self.words[unit].try_own(seen)
        };
        self.for_runs(units, usize::MAX, takes, |run| {
            let run = match self.backend.reopen(&self.memory, self.bytes_of(run.clone())) {
                Ok(()) => run,
                Err(_) => self.open_all_around(run, takes),
            };
            self.limit.leave_shared(run.len());
            run.for_each(|unit| self.words[unit].publish(State::Resident, |word| word));
        });
    }

    /// Opens a run with all shared blocks before and behind it, because the process may have no
    /// more mappings. Then no mapping is split. Returns the blocks that it opened.
    fn open_all_around(&self, run: Range<usize>, takes: impl Fn(usize) -> bool) -> Range<usize> {
        let start = run.start - (0..run.start).rev().take_while(|unit| takes(*unit)).count();
        let end = run.end + (run.end..self.units()).take_while(|unit| takes(*unit)).count();
        let opened = self.backend.reopen(&self.memory, self.bytes_of(start..end));
        self.expect("memory can't be opened again", opened);
        start..end
    }
}
