//! Ownership of blocks is taken by one compare-and-swap a block (zm-S1).

use super::OwnedRun;
use crate::pager::Pager;
use crate::policy::PIECE;
use crate::state::{Seen, State};
use std::ops::Range;

/// Takes ownership of a block if its word is still `seen`, which is not `Busy`.
pub(crate) fn own_block(pager: &Pager, unit: usize, seen: Seen) -> Option<OwnedRun<'_>> {
    let is_owned = pager.words[unit].try_own(seen);
    is_owned.then(|| OwnedRun::new(pager, unit..unit + 1, seen.state()))
}

/// Takes ownership of the first of `units` while they are in the state `from` and `takes`
/// returns true, of `PIECE` blocks at most. The run may be empty.
pub(crate) fn own_first(
    pager: &Pager,
    units: Range<usize>,
    from: State,
    takes: impl Fn(Seen) -> bool,
) -> OwnedRun<'_> {
    let mut run = OwnedRun::new(pager, units.start..units.start, from);
    run.grow_behind(units.end.min(units.start + PIECE), takes);
    run
}

/// Calls `work` for each run of blocks of which `takes` permits ownership. A run has blocks of
/// one state.
pub(crate) fn for_owned<'p>(
    pager: &'p Pager,
    units: Range<usize>,
    takes: impl Fn(usize, Seen) -> bool,
    mut work: impl FnMut(OwnedRun<'p>),
) {
    let mut next = units.start;
    while next < units.end {
        let seen = pager.words[next].load();
        let is_taken = seen.state() != State::Busy && takes(next, seen);
        let Some(mut run) = is_taken.then(|| own_block(pager, next, seen)).flatten() else {
            next += 1;
            continue;
        };
        while run.units.end < units.end {
            let (unit, seen) = (run.units.end, pager.words[run.units.end].load());
            let is_taken = seen.state() == run.from && takes(unit, seen);
            if !is_taken || !pager.words[unit].try_own(seen) {
                break;
            }
            run.units.end += 1;
        }
        // The block behind a run ended it, and is skipped.
        next = run.units.end + 1;
        work(run);
    }
}

/// Calls `work` for each run of blocks that are still `Evicting`, which the caller made so.
pub(crate) fn for_evicting<'p>(
    pager: &'p Pager,
    units: Range<usize>,
    mut work: impl FnMut(OwnedRun<'p>),
) {
    let ends = |unit: usize| pager.words[unit].try_end_evicting();
    pager.for_runs(units, usize::MAX, ends, |run| {
        work(OwnedRun::new(pager, run, State::Evicting));
    });
}

/// Takes ownership back from the queue of the compressor thread, which has just removed `unit`.
pub(crate) fn own_queued(pager: &Pager, unit: usize) -> OwnedRun<'_> {
    OwnedRun::new(pager, unit..unit + 1, State::Evicted)
}
