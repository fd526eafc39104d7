//! Memory that children of a fork do not inherit (MADV_DONTFORK). The runtime manages this memory
//! like other memory. A child frees its copy of the memory before the child's program continues.
//! MADV_DONTFORK is not passed to the kernel, because the kernel could place mappings in the
//! resulting gaps of the child's arena.

use crate::pieces::Kind;
use crate::space::Space;
use dispatch::system;
use libc::{MADV_DOFORK, SYS_madvise};
use std::ops::Range;
use zmem::Arena;

/// Returns whether children do not inherit the page at an address.
pub(crate) fn is_left_out(space: &Space, at: usize) -> bool {
    space.left_out.is_full(at..at + 1)
}

/// Sets whether children inherit the mapped pages of a range.
pub(crate) fn leave_out(space: &mut Space, range: Range<usize>, is_left_out: bool) {
    for (part, kind) in space.pieces.parts(range) {
        if kind == Some(Kind::Other) && !is_left_out {
            // MADV_DONTFORK may have been set in the kernel for this memory before `mremap`
            // moved the memory into the arena.
            let args = [part.start, part.len(), MADV_DOFORK as usize, 0, 0, 0];
            let _done = system(SYS_madvise, args);
        }
        if kind.is_some() {
            space.left_out.set(part, is_left_out.then_some(()));
        }
    }
}

/// Frees the memory that this process, a child of a fork, must not inherit.
pub(crate) fn begin_child(space: &mut Space, arena: &Arena) {
    for (part, mark) in
        arena.windows().flat_map(|window| space.left_out.parts(window)).collect::<Vec<_>>()
    {
        if mark.is_some() {
            // If freeing fails, the child keeps a copy of the memory, which the child's program
            // does not use.
            let _left = space.put(arena, part, None);
        }
    }
}
