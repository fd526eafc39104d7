//! Memory that a wrapper holds for a call, which it issues on the program's stack.
//!
//! pl-14: a thread holds one range at a time. A signal handler that comes amid its call finds it
//! taken and goes the long way. Where a handler leaves the call for good, the range stays pinned,
//! and the thread goes the long way from then on: what is taken is pinned first and noted then, and
//! given up in the other order, so nothing is ever unpinned that was not pinned. A thread that is
//! cancelled in its call lets go as it is unwound; one that may be cancelled anywhere may be before
//! the call and after it, and its range stays so, too.

use std::cell::Cell;
use std::ops::Range;
use zmem::Arena;

thread_local! {
    /// Where what this thread holds starts and ends; 0 for nothing. See pl-10.
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Pins blocks for a call of this thread, if they are all there; returns whether it did.
pub(crate) fn hold(arena: &Arena, blocks: &Range<usize>) -> bool {
    let is_free = HELD.get() == (0, 0);
    let is_held = is_free && arena.try_pin(blocks.clone());
    if is_held {
        HELD.set((blocks.start, blocks.end));
    }
    is_held
}

/// Unpins what this thread holds.
pub(crate) fn let_go(arena: &Arena) {
    let (start, end) = HELD.replace((0, 0));
    // It was pinned, so it is a range of the arena's.
    let _ = arena.unpin(start..end);
}
