//! System calls that change what is mapped, as far as they are about the arena. What is not, goes
//! to the system as it is.

mod advise;
mod brk;
mod kind;
mod map;
mod protect;
mod remap;
mod windows;

use crate::clock;
use crate::space::Space;
use crate::system::{Failed, system};
use crate::windows::parts_within;
use std::ops::Range;
use zmem::Arena;

/// Linux 5.18.
const MADV_DONTNEED_LOCKED: i32 = 24;
/// Linux 6.10.
const SYS_MSEAL: i64 = 462;

/// What becomes of a call.
pub(crate) enum Answer {
    /// It is the system's.
    Issue,
    /// It returns this.
    Is(isize),
}

impl From<Result<usize, Failed>> for Answer {
    fn from(result: Result<usize, Failed>) -> Self {
        Answer::Is(result.map_or_else(|failed| failed, |value| value as isize))
    }
}

/// An error as a system call returns it.
const fn error(errno: i32) -> Failed {
    -(errno as isize)
}

/// Returns a range of whole pages.
///
/// # Errors
/// EINVAL: it does not begin at a page, or has no end.
fn pages(start: usize, bytes: usize) -> Result<Range<usize>, Failed> {
    let page = page::page_size();
    let end = bytes.checked_next_multiple_of(page).and_then(|bytes| start.checked_add(bytes));
    match end {
        Some(end) if start.is_multiple_of(page) => Ok(start..end),
        _ => Err(error(libc::EINVAL)),
    }
}

/// Returns whether a range has addresses of the arena.
fn touches(arena: &Arena, range: &Range<usize>) -> bool {
    parts_within(arena, range).next().is_some()
}

/// Returns whether all of a range lies in one window.
fn is_within(arena: &Arena, range: &Range<usize>) -> bool {
    parts_within(arena, range).any(|part| part == *range)
}

/// Returns the part of a range that is the arena's; the part before it and the one behind. The
/// range touches one window.
fn cut(arena: &Arena, range: &Range<usize>) -> (Range<usize>, [Range<usize>; 2]) {
    let inner = parts_within(arena, range).next().unwrap_or(range.end..range.end);
    let outer = [range.start..inner.start, inner.end..range.end];
    (inner, outer)
}

/// Returns whether a range lies in the vDSO.
fn is_vdso(start: usize, bytes: usize) -> bool {
    let vdso = clock::vdso();
    pages(start, bytes).is_ok_and(|range| vdso.start <= range.start && range.end <= vdso.end)
}

/// Makes a call about the parts of a range that are not the arena's.
fn outside(number: i64, parts: [Range<usize>; 2], more: [usize; 2]) -> Result<(), Failed> {
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        system(number, [part.start, part.len(), more[0], more[1], 0, 0])?;
    }
    Ok(())
}

/// Returns whether a call maps shared memory that the program may write.
fn maps_shared(number: i64, args: &[usize; 6]) -> bool {
    let [_, _, prot, flags, ..] = *args;
    match number {
        libc::SYS_shmat => true,
        libc::SYS_mmap => {
            let is_shared = flags as i32 & libc::MAP_TYPE != libc::MAP_PRIVATE;
            is_shared && prot as i32 & libc::PROT_WRITE != 0
        }
        _ => false,
    }
}

/// Returns whether a call changes mappings at its first argument, which sealed memory forbids.
fn changes(number: i64, args: &[usize; 6]) -> bool {
    match number {
        libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect | libc::SYS_mremap => true,
        libc::SYS_mmap => args[3] & libc::MAP_FIXED as usize != 0,
        _ => false,
    }
}

/// Restores code of the program that a call may unmap, move, drop or make writable (di-14). Returns
/// false if that failed, and the call must.
pub(crate) fn release_code(number: usize, args: &[usize; 6]) -> bool {
    let release = |start: usize, bytes: usize, is_moved| {
        dispatch::release_code(&(start..start.saturating_add(bytes)), is_moved)
    };
    let [start, bytes, more, flags, to, _] = *args;
    let drops = [libc::MADV_DONTNEED, libc::MADV_FREE, MADV_DONTNEED_LOCKED];
    match number as i64 {
        libc::SYS_madvise if drops.contains(&(more as i32)) => release(start, bytes, false),
        libc::SYS_mremap => {
            let is_fixed = flags as i32 & libc::MREMAP_FIXED != 0;
            release(start, bytes, true) && (!is_fixed || release(to, more, false))
        }
        // The bytes are those of the segment.
        libc::SYS_shmat if more as i32 & libc::SHM_REMAP != 0 => release(bytes, usize::MAX, false),
        number if changes(number, args) => release(start, bytes, false),
        _ => true,
    }
}

/// Answers a call, if it is about the arena.
pub(crate) fn answer(space: &mut Space, arena: &Arena, number: usize, args: [usize; 6]) -> Answer {
    let [start, bytes, third, ..] = args;
    if let Some(answer) = windows::answer_parts(space, arena, number as i64, args) {
        return answer;
    }
    if maps_shared(number as i64, &args) {
        arena.maps_shared();
    }
    if number as i64 == libc::SYS_munmap
        && let Ok(range) = pages(start, bytes)
    {
        space.stacks.set(range, None);
    }
    let range = || pages(start, bytes).ok().filter(|range| touches(arena, range));
    if changes(number as i64, &args) && range().is_some_and(|range| space.is_sealed(arena, &range))
    {
        return Answer::Is(error(libc::EPERM));
    }
    match number as i64 {
        libc::SYS_mmap if map::is_over_limit(space, arena, args) => Answer::Is(error(libc::ENOMEM)),
        libc::SYS_mremap if space.is_over_limit(arena, third.saturating_sub(bytes), true, 0..0) => {
            Answer::Is(error(libc::ENOMEM))
        }
        libc::SYS_mmap => map::map(space, arena, args),
        libc::SYS_brk => brk::brk(space, arena, start),
        libc::SYS_mremap => remap::remap(space, arena, args),
        libc::SYS_mlockall => protect::lock_all(space, arena, start),
        // An address of the program's choice may lie within.
        libc::SYS_shmat if touches(arena, &(bytes..bytes + 1)) => Answer::Is(error(libc::ENOMEM)),
        // Faults of the arena would come to it in place of us.
        libc::SYS_userfaultfd => Answer::Is(error(libc::ENOSYS)),
        // Code of the runtime calls it.
        libc::SYS_munmap if is_vdso(start, bytes) => Answer::Is(0),
        number => match (number, range()) {
            (libc::SYS_munmap, Some(range)) => map::unmap(space, arena, range).map(|()| 0).into(),
            (libc::SYS_mprotect, Some(range)) => {
                protect::protect(space, arena, range, args, third as i32).into()
            }
            (
                libc::SYS_pkey_mprotect | libc::SYS_mlock | libc::SYS_mlock2 | SYS_MSEAL,
                Some(range),
            ) => protect::hold(space, arena, range, number, args).into(),
            // The system has the whole arena mapped.
            (libc::SYS_mincore | libc::SYS_msync | libc::SYS_munlock, Some(range))
                if !space.pieces.is_full(cut(arena, &range).0) =>
            {
                Answer::Is(error(libc::ENOMEM))
            }
            (libc::SYS_madvise, Some(range)) => advise::advise(space, arena, range, third as i32),
            _ => Answer::Issue,
        },
    }
}
