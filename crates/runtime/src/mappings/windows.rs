//! Memory at addresses that the arena was not made with (pl-24): the program has named them, or
//! the mapping is larger than the arena. It gets a window of the arena.
//!
//! # Safety
//! Memory that gets a window was mapped by the same call, so it has no contents.
#![allow(unsafe_code)]

use super::kind::is_executable_data;
use super::{Answer, answer, pages};
use crate::pieces::Kind;
use crate::space::{Space, map_over};
use crate::system::{Failed, system};
use crate::windows::{DATA, parts_within};
use libc::{MAP_FIXED, MAP_POPULATE, PROT_EXEC, PROT_NONE};
use std::ops::Range;
use zmem::{Advice, Arena};

/// The arena has few windows, so a smaller one is not worth it.
const WINDOW_MIN: usize = 2 << 20;
/// A reservation larger than the room gets this share of it: programs use it from its start on.
const RESERVED_SHARE: (usize, usize) = (3, 4);
/// Linux 5.14.
const MADV_POPULATE_WRITE: usize = 23;

/// Maps memory where the system or the program chooses, and gives it a window if it is of a kind
/// that the arena manages.
pub(super) fn map_outside(
    space: &mut Space,
    arena: &Arena,
    kind: Option<Kind>,
    args: [usize; 6],
) -> Answer {
    let is_large = args[1] >= WINDOW_MIN && arena.window_room() >= WINDOW_MIN;
    let is_executable = kind.is_none() && is_executable_data(args[2] as i32, args[3] as i32);
    let kind = kind.or(is_executable.then_some(Kind::Data));
    let Some(kind) = kind.filter(|_| space.is_serving && is_large) else { return Answer::Issue };
    let is_populated = args[3] as i32 & MAP_POPULATE != 0;
    let mut args = args;
    args[3] &= !(MAP_POPULATE as usize);
    let mapped = system(libc::SYS_mmap, args).and_then(|start| {
        let range = pages(start, args[1])?;
        let window = add(space, arena, &range, kind, is_executable)?;
        if is_populated && kind == Kind::Data {
            let _done = arena.advise(window.clone(), Advice::Hot);
            for part in [range.start..window.start, window.end..range.end] {
                let args = [part.start, part.len(), MADV_POPULATE_WRITE, 0, 0, 0];
                let _done = system(libc::SYS_madvise, args);
            }
        }
        Ok(start)
    });
    mapped.into()
}

/// Returns the part of a new mapping that gets a window; an empty range if none does.
fn window_of(arena: &Arena, range: &Range<usize>, kind: Kind) -> Range<usize> {
    let (align, room) = (arena.block(), arena.window_room());
    let start = range.start.next_multiple_of(align).min(range.end);
    let end = (range.end / align * align).max(start);
    let bytes = match kind {
        _ if end - start <= room => end - start,
        Kind::Reserved => room / RESERVED_SHARE.1 * RESERVED_SHARE.0 / align * align,
        _ => 0,
    };
    if bytes < WINDOW_MIN { start..start } else { start..start + bytes }
}

/// Gives a new mapping a window, and returns its addresses: an empty range if the mapping stays
/// the system's.
///
/// # Errors
/// ENOMEM: the mapping is lost.
fn add(
    space: &mut Space,
    arena: &Arena,
    range: &Range<usize>,
    kind: Kind,
    is_executable: bool,
) -> Result<Range<usize>, Failed> {
    let window = window_of(arena, range, kind);
    if window.is_empty() {
        return Ok(window);
    }
    // SAFETY: the mapping is new, see the head of this file.
    if unsafe { arena.add_window(window.clone(), is_executable) }.is_err() {
        let prot = match kind {
            Kind::Data if is_executable => DATA | PROT_EXEC,
            Kind::Data => DATA,
            _ => PROT_NONE,
        };
        map_over(&window, prot)?;
        return Ok(window.start..window.start);
    }
    let beyond = arena.windows().skip(1);
    let hull = beyond.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
    dispatch::simple::set_windows(&hull.unwrap_or_default());
    space.put(arena, window.clone(), Some(kind))?;
    Ok(window)
}

/// Returns whether a call is about the range of its first two arguments, and of no other memory.
fn has_range(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_mlock
            | libc::SYS_mlock2
            | libc::SYS_munlock
            | libc::SYS_madvise
            | libc::SYS_msync
            | super::SYS_MSEAL
    )
}

/// Answers a call whose range has parts of several windows, or a mapping at an address of which
/// only a part is the arena's. Each part is a call of its own. Returns `None` for other calls.
pub(super) fn answer_parts(
    space: &mut Space,
    arena: &Arena,
    number: i64,
    args: [usize; 6],
) -> Option<Answer> {
    let is_map = number == libc::SYS_mmap && args[3] as i32 & MAP_FIXED != 0;
    let range = pages(args[0], args[1]).ok().filter(|_| is_map || has_range(number))?;
    let mut parts = parts_within(arena, &range);
    let first = parts.next()?;
    if parts.next().is_none() && !(is_map && first != range) {
        return None;
    }
    let edges = parts_within(arena, &range).flat_map(|part| [part.start, part.end]);
    let mut edges: Vec<usize> = edges.chain([range.start, range.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut result = if is_map { range.start as isize } else { 0 };
    for part in edges.windows(2) {
        let mut args = args;
        (args[0], args[1]) = (part[0], part[1] - part[0]);
        if is_map {
            args[5] = args[5].wrapping_add(part[0] - range.start);
        }
        let done = match answer(space, arena, number as usize, args) {
            Answer::Is(done) => done,
            Answer::Issue => {
                system(number, args).map_or_else(|failed| failed, |done| done as isize)
            }
        };
        if done < 0 {
            result = done;
            // The kernel, too, advises what lies behind a hole.
            if number != libc::SYS_madvise {
                break;
            }
        }
    }
    Some(Answer::Is(result))
}
