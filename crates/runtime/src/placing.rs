//! The placement of new mappings in the arena.
//!
//! ```text
//!   | break ... --> |            <-- ... data | library | free | library | free: 24 MiB |
//!                                             |<----------- an eighth of it ----------->|
//! ```
//! pl-3: data are placed in the part for libraries only if the other part of the arena is full.

use crate::policy::{ABOVE_LIBRARY, CHUNK, LIBRARIES_SHARE};
use crate::space::Space;
use std::ops::Range;
use zmem::Arena;

/// Returns the part of an arena's addresses for libraries.
fn libraries(arena: &Range<usize>) -> Range<usize> {
    let bytes = arena.len() / LIBRARIES_SHARE / CHUNK * CHUNK;
    arena.end - bytes..arena.end
}

/// Returns the start of `bytes` free bytes for data, at the arena's initial addresses. `bytes` must
/// be a multiple of the page size.
pub(crate) fn find(space: &Space, arena: &Arena, bytes: usize) -> Option<usize> {
    let align = if bytes >= CHUNK { CHUNK } else { arena.block() };
    let of = arena.addresses();
    // The addresses below `least` remain free, so that the break can grow.
    let least = space.brk.map_or(of.start, |brk| brk.now.max(of.start) + CHUNK);
    let find = |end| space.pieces.find(least.min(end)..end, bytes, align.max(arena.block()));
    find(libraries(&of).start).or_else(|| find(of.end))
}

/// Returns the start of free addresses for a mapping in an added window. If the program has
/// requested an address, `wanted` begins at this address, and only `wanted` is considered.
pub(crate) fn find_in_windows(
    space: &Space,
    arena: &Arena,
    wanted: &Range<usize>,
    is_executable: bool,
) -> Option<usize> {
    let alike = |window: &Range<usize>| arena.is_executable(window.start) == is_executable;
    let mut windows = arena.windows().skip(1).filter(alike);
    match wanted.start {
        // Only windows at addresses that the kernel chose are used, because a program can later
        // replace mappings at addresses that it chose itself.
        0 => windows
            .filter(|window| space.chosen.is_full(window.clone()))
            .find_map(|window| space.pieces.find(window, wanted.len(), arena.block())),
        start => {
            let has = |window: &Range<usize>| window.start <= start && wanted.end <= window.end;
            let is_free = windows.any(|window| has(&window));
            (is_free && space.pieces.is_empty(wanted.clone())).then_some(start)
        }
    }
}

/// Returns the start of `bytes` free bytes for a library, with free addresses above these bytes
/// for stubs.
pub(crate) fn find_for_library(space: &Space, arena: &Arena, bytes: usize) -> Option<usize> {
    let bytes = bytes.checked_add(ABOVE_LIBRARY)?;
    space.pieces.find(libraries(&arena.addresses()), bytes, arena.block())
}
