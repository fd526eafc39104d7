//! System calls that change mappings in the arena. Calls that change only other mappings are passed
//! to the kernel unchanged.

mod advise;
mod brk;
mod kind;
mod map;
mod protect;
mod remap;
mod windows;

use crate::clock;
use crate::kernel::{EINVAL, ENOMEM, ENOSYS, EPERM, PROT_ALL};
use crate::policy::SHARED_MIN;
use crate::space::Space;
use crate::windows::{has, parts_within};
use dispatch::{Failed, system};
use std::ops::Range;
use zmem::Arena;

/// How a call is handled.
pub(crate) enum Answer {
    /// The call is issued.
    Issue,
    /// The call is not issued, and returns this value.
    Is(isize),
}

impl From<Result<usize, Failed>> for Answer {
    fn from(result: Result<usize, Failed>) -> Self {
        Answer::Is(result.map_or_else(|failed| failed, |value| value as isize))
    }
}

/// Returns the range that begins at `start` and has `bytes` bytes, rounded up to whole pages.
///
/// # Errors
/// EINVAL: `start` is not at a page boundary, or the end overflows.
fn pages(start: usize, bytes: usize) -> Result<Range<usize>, Failed> {
    let page = page::page_size();
    let end = bytes.checked_next_multiple_of(page).and_then(|bytes| start.checked_add(bytes));
    match end {
        Some(end) if start.is_multiple_of(page) => Ok(start..end),
        _ => Err(EINVAL),
    }
}

/// Returns whether a range contains addresses of the arena.
fn touches(arena: &Arena, range: &Range<usize>) -> bool {
    parts_within(arena, range).next().is_some()
}

/// Returns whether a range lies completely in one window.
fn is_within(arena: &Arena, range: &Range<usize>) -> bool {
    parts_within(arena, range).any(|part| part == *range)
}

fn is_vdso(start: usize, bytes: usize) -> bool {
    let vdso = clock::vdso();
    pages(start, bytes).is_ok_and(|range| vdso.start <= range.start && range.end <= vdso.end)
}

/// Makes a call as if the program had issued it.
fn make(space: &mut Space, arena: &Arena, number: i64, args: [usize; 6]) -> Result<usize, Failed> {
    match answer(space, arena, number as usize, args) {
        Answer::Issue => system(number, args),
        Answer::Is(result @ ..0) => Err(result),
        Answer::Is(result) => Ok(result as usize),
    }
}

/// Moves the start of a call's range down to a page boundary if the kernel does so for this call.
fn whole_pages(number: i64, mut args: [usize; 6]) -> [usize; 6] {
    if matches!(number, libc::SYS_mlock | libc::SYS_mlock2 | libc::SYS_munlock) {
        let before = args[0] % page::page_size();
        args[0] -= before;
        args[1] = args[1].saturating_add(before);
    }
    args
}

/// Returns whether a call maps shared memory that is writable or has at least `SHARED_MIN` bytes.
/// Returns true for each `shmat`.
pub(crate) fn maps_shared(number: i64, args: &[usize; 6]) -> bool {
    let [_, bytes, prot, flags, ..] = *args;
    match number {
        libc::SYS_shmat => true,
        libc::SYS_mmap => {
            let is_shared = flags as i32 & libc::MAP_TYPE != libc::MAP_PRIVATE;
            is_shared && (prot as i32 & libc::PROT_WRITE != 0 || bytes >= SHARED_MIN)
        }
        _ => false,
    }
}

/// Returns the maximum number of bytes by which a call increases the program's private writable
/// memory.
pub(crate) fn opened_bytes(number: i64, args: &[usize; 6]) -> usize {
    let [_, bytes, third, flags, ..] = *args;
    let is_written = third as i32 & libc::PROT_WRITE != 0;
    let is_private = || flags as i32 & libc::MAP_TYPE == libc::MAP_PRIVATE;
    match number {
        libc::SYS_mprotect | libc::SYS_pkey_mprotect if is_written => bytes,
        libc::SYS_mmap if is_written && is_private() => bytes,
        libc::SYS_mremap => third.saturating_sub(bytes),
        _ => 0,
    }
}

/// Returns whether a call changes mappings at the address in its first argument. Such a call fails
/// if the memory there is sealed.
fn changes(number: i64, args: &[usize; 6]) -> bool {
    calls::spec(number as usize).is_some_and(|spec| spec.changes_mappings.holds(args))
}

/// Returns whether an `madvise` value lets the kernel drop memory.
fn drops(advice: usize) -> bool {
    [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_DONTNEED_LOCKED].contains(&(advice as i32))
}

/// Returns whether a range contains code through which calls return to the program (di-17).
fn has_tails(start: usize, bytes: usize) -> bool {
    let tails = dispatch::tails();
    start < tails.end && tails.start < start.saturating_add(bytes)
}

/// Restores replaced instructions in code that a call may unmap, move, drop or make writable
/// (di-14). If the code can't be restored, returns false, and the call must fail.
pub(crate) fn release_code(number: usize, args: &[usize; 6]) -> bool {
    let release = |start: usize, bytes: usize, is_moved| {
        dispatch::release_code(&(start..start.saturating_add(bytes)), is_moved)
    };
    let [start, bytes, more, flags, to, _] = *args;
    match number as i64 {
        libc::SYS_madvise if drops(more) => release(start, bytes, false),
        libc::SYS_mremap => {
            let is_fixed = flags as i32 & libc::MREMAP_FIXED != 0;
            release(start, bytes, true) && (!is_fixed || release(to, more, false))
        }
        // The size of the shared memory segment is not known at this point.
        libc::SYS_shmat if more as i32 & libc::SHM_REMAP != 0 => release(bytes, usize::MAX, false),
        number if changes(number, args) => release(start, bytes, false),
        _ => true,
    }
}

/// Handles a call that concerns mappings. Returns [`Answer::Issue`] if the kernel must handle the
/// call.
pub(crate) fn answer(space: &mut Space, arena: &Arena, number: usize, args: [usize; 6]) -> Answer {
    let args = whole_pages(number as i64, args);
    let [start, bytes, third, ..] = args;
    let is_sealed = |range: Range<usize>| space.is_sealed(arena, &range);
    if changes(number as i64, &args) && pages(start, bytes).is_ok_and(is_sealed) {
        return Answer::Is(EPERM);
    }
    if number as i64 == libc::SYS_mmap && map::is_over_limit(space, arena, args) {
        return Answer::Is(ENOMEM);
    }
    if changes(number as i64, &args)
        && number as i64 != libc::SYS_mremap
        && let Ok(range) = pages(start, bytes)
    {
        space.edges.set(range, None);
    }
    if let Some(answer) = windows::answer_parts(space, arena, number as i64, args) {
        return answer;
    }
    if number as i64 == libc::SYS_munmap
        && let Ok(range) = pages(start, bytes)
    {
        space.stacks.set(range, None);
    }
    let range = || pages(start, bytes).ok().filter(|range| touches(arena, range));
    match number as i64 {
        libc::SYS_mremap if space.is_over_limit(arena, third.saturating_sub(bytes), true, 0..0) => {
            Answer::Is(ENOMEM)
        }
        libc::SYS_mmap => map::map(space, arena, args),
        libc::SYS_brk => brk::brk(space, arena, start),
        libc::SYS_mremap => remap::remap(space, arena, args),
        libc::SYS_mlockall => protect::lock_all(space, arena, start),
        // The kernel would map the segment in the arena, at the address that the program requested.
        libc::SYS_shmat if has(arena, bytes) => Answer::Is(ENOMEM),
        // With a userfaultfd of the program, the kernel would report faults in the arena to the
        // program, not to the runtime.
        libc::SYS_userfaultfd => Answer::Is(ENOSYS),
        // The runtime itself calls code in the vDSO.
        libc::SYS_munmap if is_vdso(start, bytes) => Answer::Is(0),
        libc::SYS_madvise if drops(third) && has_tails(start, bytes) => Answer::Is(0),
        number => match (number, range()) {
            (libc::SYS_munmap, Some(range)) => map::unmap(space, arena, range).map(|()| 0).into(),
            (libc::SYS_mprotect, Some(range)) if third & !PROT_ALL == 0 => {
                protect::protect(space, arena, range, third as i32).into()
            }
            (
                libc::SYS_pkey_mprotect | libc::SYS_mlock | libc::SYS_mlock2 | libc::SYS_mseal,
                Some(range),
            ) => protect::hold(space, arena, range, number, args).into(),
            // The call must fail for free addresses. The kernel would let it succeed, because the
            // whole arena is mapped in the kernel.
            (libc::SYS_mincore | libc::SYS_msync | libc::SYS_munlock, Some(range))
                if parts_within(arena, &range).any(|part| !space.pieces.is_full(part)) =>
            {
                Answer::Is(ENOMEM)
            }
            (libc::SYS_madvise, Some(range)) => advise::advise(space, arena, range, third as i32),
            _ => Answer::Issue,
        },
    }
}
