//! What a child of a fork has nothing of (MADV_DONTFORK). It is managed as all else; the child
//! frees it before its program goes on. The system is not told: it would leave holes in the child's
//! arena, for it to place mappings in.

use crate::pieces::Kind;
use crate::space::Space;
use dispatch::system;
use libc::{MADV_DOFORK, SYS_madvise};
use std::ops::Range;
use zmem::Arena;

impl Space {
    /// Returns whether a child has nothing of the page at an address.
    pub(crate) fn is_left_out(&self, at: usize) -> bool {
        self.left_out.is_full(at..at + 1)
    }

    /// Sets whether a child has nothing of what is mapped in a range.
    pub(crate) fn leave_out(&mut self, range: Range<usize>, is_left_out: bool) {
        for (part, kind) in self.pieces.parts(range) {
            if kind == Some(Kind::Other) && !is_left_out {
                // It may have been left out by the system before it was moved here.
                let args = [part.start, part.len(), MADV_DOFORK as usize, 0, 0, 0];
                let _done = system(SYS_madvise, args);
            }
            if kind.is_some() {
                self.left_out.set(part, is_left_out.then_some(()));
            }
        }
    }

    /// Frees in a child what it has nothing of.
    pub(crate) fn begin_child(&mut self, arena: &Arena) {
        for (part, mark) in
            arena.windows().flat_map(|window| self.left_out.parts(window)).collect::<Vec<_>>()
        {
            if mark.is_some() {
                // What can't be freed is a copy that the child does not know of.
                let _left = self.put(arena, part, None);
            }
        }
    }
}
