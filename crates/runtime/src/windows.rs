//! The addresses of the arena's windows, and the protection of managed memory in windows.

use std::ops::Range;
use zmem::Arena;

/// The protection of managed memory, unless its window is executable.
pub(crate) const DATA: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Returns the protection of managed memory at an address.
pub(crate) fn data_at(arena: &Arena, address: usize) -> i32 {
    if arena.is_executable(address) { DATA | libc::PROT_EXEC } else { DATA }
}

/// Returns whether an address lies in a window.
pub(crate) fn has(arena: &Arena, address: usize) -> bool {
    arena.windows().any(|window| window.contains(&address))
}

/// Returns the parts of a range that lie in windows of the arena.
pub(crate) fn parts_within<'a>(
    arena: &'a Arena,
    range: &Range<usize>,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let Range { start, end } = *range;
    let parts = arena.windows().map(move |window| window.start.max(start)..window.end.min(end));
    parts.filter(|part| !part.is_empty())
}
