//! The placement of new mappings in the arena.
//!
//! ```text
//!   | break ... --> |            <-- ... data | library | free | library | free: 24 MiB |
//!                                             |<----------- an eighth of it ----------->|
//! ```
//! pl-3: data are placed below the part for libraries until the rest of the arena is full.

use crate::space::Space;
use std::ops::Range;
use zmem::Arena;

/// The alignment of mappings of at least this size, so that they consist of whole chunks.
const CHUNK: usize = 2 << 20;
/// The part for libraries, at the arena's end, is 1/`LIBRARIES_SHARE` of the arena.
const LIBRARIES_SHARE: usize = 8;
/// The number of bytes that remain free above a library. The stubs of glibc lie 4 and 20 MiB above
/// their sites, because of the instructions after each `syscall` (di-13).
const ABOVE_LIBRARY: usize = 24 << 20;

/// Returns the part of an arena's addresses for libraries.
fn libraries(arena: &Range<usize>) -> Range<usize> {
    let bytes = arena.len() / LIBRARIES_SHARE / CHUNK * CHUNK;
    arena.end - bytes..arena.end
}

impl Space {
    /// Returns the start of `bytes` free bytes. `bytes` must be a multiple of the page size.
    pub(crate) fn find(&self, arena: &Arena, bytes: usize) -> Option<usize> {
        let align = if bytes >= CHUNK { CHUNK } else { arena.block() };
        let of = arena.addresses();
        // The addresses up to `least` remain free, so that the break can grow.
        let least = self.brk.map_or(of.start, |brk| brk.now.max(of.start) + CHUNK);
        let find = |end| self.pieces.find(least.min(end)..end, bytes, align.max(arena.block()));
        find(libraries(&of).start).or_else(|| find(of.end))
    }

    /// Returns the start of free addresses in an added window: those that the program has
    /// requested, or any if the program has requested none.
    pub(crate) fn find_in_windows(
        &self,
        arena: &Arena,
        wanted: &Range<usize>,
        is_executable: bool,
    ) -> Option<usize> {
        let alike = |window: &Range<usize>| arena.is_executable(window.start) == is_executable;
        let mut windows = arena.windows().skip(1).filter(alike);
        match wanted.start {
            // A program may later map memory at addresses that it requested before, so only windows
            // at addresses that the kernel chose are used.
            0 => windows
                .filter(|window| self.chosen.is_full(window.clone()))
                .find_map(|window| self.pieces.find(window, wanted.len(), arena.block())),
            start => {
                let has = |window: &Range<usize>| window.start <= start && wanted.end <= window.end;
                let is_free = windows.any(|window| has(&window));
                (is_free && self.pieces.is_empty(wanted.clone())).then_some(start)
            }
        }
    }

    /// Returns the start of `bytes` free bytes for a library, with free addresses above these bytes
    /// for stubs.
    pub(crate) fn find_for_library(&self, arena: &Arena, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_add(ABOVE_LIBRARY)?;
        self.pieces.find(libraries(&arena.addresses()), bytes, arena.block())
    }
}
