//! The addresses of the arena's windows, and the protection of managed memory in windows.

use crate::kernel::ENOMEM;
use dispatch::{Failed, system};
use std::ops::Range;
use zmem::Arena;

/// The protection of managed memory, unless its window is executable.
pub(crate) const DATA: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Returns the protection of managed memory at an address.
pub(crate) fn data_at(arena: &Arena, address: usize) -> i32 {
    if arena.is_executable(address) { DATA | libc::PROT_EXEC } else { DATA }
}

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

/// Returns the non-empty parts of a range before and after its inner range. The inner range may be
/// empty.
pub(crate) fn edges(
    range: &Range<usize>,
    inner: &Range<usize>,
) -> impl Iterator<Item = Range<usize>> {
    let parts = match inner.is_empty() {
        true => [range.clone(), range.end..range.end],
        false => [range.start..inner.start, inner.end..range.end],
    };
    parts.into_iter().filter(|part| !part.is_empty())
}

pub(crate) fn protect(range: &Range<usize>, prot: i32) -> Result<usize, Failed> {
    system(libc::SYS_mprotect, [range.start, range.len(), prot as usize, 0, 0, 0])
}

/// Converts an error of `zmem`, such as too many pins of a block, to ENOMEM.
pub(crate) fn refused<E>(_: E) -> Failed {
    ENOMEM
}

/// Returns the addresses of all blocks that overlap a range.
pub(crate) fn around(arena: &Arena, range: &Range<usize>) -> Range<usize> {
    let block = arena.block();
    range.start / block * block..range.end.next_multiple_of(block)
}

/// Returns the addresses of all blocks completely within a range. The result may be empty.
pub(crate) fn within(arena: &Arena, range: &Range<usize>) -> Range<usize> {
    let block = arena.block();
    let start = range.start.next_multiple_of(block);
    start..(range.end / block * block).max(start)
}
