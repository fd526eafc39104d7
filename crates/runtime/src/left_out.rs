//! Memory that the children of a fork do not get (MADV_DONTFORK). It is managed like other memory,
//! and a child frees it before its program continues. The kernel does not get this advice, because
//! it would then place mappings in the holes of the child's arena.

use crate::pieces::Kind;
use crate::space::Space;
use dispatch::system;
use libc::{MADV_DOFORK, SYS_madvise};
use std::ops::Range;
use zmem::Arena;

impl Space {
    /// Returns whether children do not get the page at an address.
    pub(crate) fn is_left_out(&self, at: usize) -> bool {
        self.left_out.is_full(at..at + 1)
    }

    /// Sets whether children get the mapped pages of a range.
    pub(crate) fn leave_out(&mut self, range: Range<usize>, is_left_out: bool) {
        for (part, kind) in self.pieces.parts(range) {
            if kind == Some(Kind::Other) && !is_left_out {
                // The kernel may have got MADV_DONTFORK for this memory before it was moved here.
                let args = [part.start, part.len(), MADV_DOFORK as usize, 0, 0, 0];
                let _done = system(SYS_madvise, args);
            }
            if kind.is_some() {
                self.left_out.set(part, is_left_out.then_some(()));
            }
        }
    }

    /// Frees the memory that this process, a child of a fork, must not have.
    pub(crate) fn begin_child(&mut self, arena: &Arena) {
        for (part, mark) in
            arena.windows().flat_map(|window| self.left_out.parts(window)).collect::<Vec<_>>()
        {
            if mark.is_some() {
                // If freeing fails, the child keeps a copy, which its program does not use.
                let _left = self.put(arena, part, None);
            }
        }
    }
}
