//! Windows of the arena (pl-24). A window holds a mapping that is too large for the arena's initial
//! addresses, or that the program has placed outside of them.
//!
//! # Safety
//! A window replaces only memory that the program's call maps or replaces.
#![allow(unsafe_code)]

use super::kind::is_executable_data;
use super::{Answer, is_within, make, pages, touches};
use crate::kernel::EEXIST;
use crate::pieces::Kind;
use crate::policy::{RESERVED_SHARE, WINDOW_MIN};
use crate::space::Space;
use crate::windows::{edges, parts_within};
use dispatch::{Failed, system};
use libc::{MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_POPULATE};
use std::ops::Range;
use zmem::{Advice, Arena};

/// Maps memory for which the arena has no free addresses. Adds a window for the memory if the arena
/// can manage memory of this kind.
pub(super) fn map_outside(
    space: &mut Space,
    arena: &Arena,
    kind: Option<Kind>,
    args: [usize; 6],
) -> Answer {
    let [start, bytes, prot, flags, ..] = args;
    let (prot, flags) = (prot as i32, flags as i32);
    let is_large = bytes >= WINDOW_MIN && arena.window_room() >= WINDOW_MIN;
    let is_executable = kind.is_none() && is_executable_data(prot, flags) && !space.is_exec_refused;
    let kind = kind.or(is_executable.then_some(Kind::Data));
    let Some(kind) = kind.filter(|_| space.is_serving && is_large) else { return Answer::Issue };
    let window = New { kind, is_executable };
    let done = match flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) {
        MAP_FIXED => match pages(start, bytes) {
            Ok(range) => window.replace(space, arena, range, args),
            Err(_) => return Answer::Issue,
        },
        _ => window.map(space, arena, args),
    };
    let Some(done) = done else { return Answer::Issue };
    done.map(|(range, window)| {
        if flags & MAP_POPULATE != 0 && kind == Kind::Data {
            populate(arena, &range, window);
        }
        range.start
    })
    .into()
}

/// Populates a new mapping.
fn populate(arena: &Arena, range: &Range<usize>, window: Range<usize>) {
    let _done = arena.advise(window.clone(), Advice::Hot);
    for part in edges(range, &window) {
        let advice = libc::MADV_POPULATE_WRITE as usize;
        let _done = system(libc::SYS_madvise, [part.start, part.len(), advice, 0, 0, 0]);
    }
}

/// The addresses of a mapping, and the addresses of its window. The second range is empty if the
/// mapping has no window.
type Placed = (Range<usize>, Range<usize>);

/// A new mapping that gets a window.
struct New {
    kind: Kind,
    is_executable: bool,
}

impl New {
    /// Maps memory at addresses that the kernel chooses, and adds a window at these addresses.
    fn map(
        &self,
        space: &mut Space,
        arena: &Arena,
        mut args: [usize; 6],
    ) -> Option<Result<Placed, Failed>> {
        args[3] &= !(MAP_POPULATE as usize);
        let mapped = system(libc::SYS_mmap, args);
        Some(mapped.and_then(|start| {
            let range = pages(start, args[1])?;
            let window = window_of(arena, &range, self.kind);
            // SAFETY: the mapping is new, so nothing was written to it.
            if window.is_empty() || unsafe { self.add(arena, &window) }.is_err() {
                return Ok((range.clone(), range.start..range.start));
            }
            space.put(arena, window.clone(), Some(self.kind))?;
            self.note_edges(space, &range, &window);
            space.chosen.set(window.clone(), (args[0] == 0).then_some(()));
            Ok((range, window))
        }))
    }

    /// Adds a window that replaces the mappings at its addresses, and lets the kernel map the parts
    /// of the range before and after the window. Returns `None` if no window was added.
    fn replace(
        &self,
        space: &mut Space,
        arena: &Arena,
        range: Range<usize>,
        args: [usize; 6],
    ) -> Option<Result<Placed, Failed>> {
        let window = window_of(arena, &range, self.kind);
        // SAFETY: the program requested that all mappings in the range are replaced.
        if window.is_empty() || unsafe { self.add(arena, &window) }.is_err() {
            return None;
        }
        let mapped = space.put(arena, window.clone(), Some(self.kind)).and_then(|()| {
            edges(&range, &window).try_for_each(|part| {
                let args = [part.start, part.len(), args[2], args[3], args[4], args[5]];
                system(libc::SYS_mmap, args).map(drop)
            })
        });
        self.note_edges(space, &range, &window);
        Some(mapped.map(|()| (range, window)))
    }

    fn note_edges(&self, space: &mut Space, range: &Range<usize>, window: &Range<usize>) {
        for edge in edges(range, window) {
            space.edges.set(edge, Some(self.kind));
        }
    }

    /// Adds a window, whose memory is PROT_NONE at first. If an error occurs, the mappings are
    /// unchanged.
    ///
    /// # Safety
    /// The mappings in the range are no longer needed.
    unsafe fn add(&self, arena: &Arena, window: &Range<usize>) -> Result<(), zmem::Error> {
        // SAFETY: the caller guarantees that the mappings are no longer needed.
        unsafe { arena.add_window(window.clone(), self.is_executable)? };
        let added = arena.windows().skip(1);
        let hull = added.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
        dispatch::simple::set_windows(&hull.unwrap_or_default());
        Ok(())
    }
}

/// Returns the part of a new mapping that gets a window. This part may be empty.
fn window_of(arena: &Arena, range: &Range<usize>, kind: Kind) -> Range<usize> {
    let (align, room) = (arena.block(), arena.window_room());
    let start = range.start.next_multiple_of(align).min(range.end);
    let end = (range.end / align * align).max(start);
    let bytes = match kind {
        _ if end - start <= room => end - start,
        Kind::Reserved => room / RESERVED_SHARE.1 * RESERVED_SHARE.0 / align * align,
        _ => 0,
    };
    // A window can't begin at address 0.
    if bytes < WINDOW_MIN || start == 0 { start..start } else { start..start + bytes }
}

/// Handles a call whose range lies in several windows, or only partly in a window. Each part is
/// handled as a separate call, in ascending order. Returns `None` for other calls.
pub(super) fn answer_parts(
    space: &mut Space,
    arena: &Arena,
    number: i64,
    args: [usize; 6],
) -> Option<Answer> {
    let placed = (args[3] as i32) & (MAP_FIXED | MAP_FIXED_NOREPLACE);
    let is_map = number == libc::SYS_mmap && placed != 0;
    let is_of_range = calls::spec(number as usize).is_some_and(|spec| spec.is_of_range);
    let range = pages(args[0], args[1]).ok().filter(|_| is_map || is_of_range)?;
    if !touches(arena, &range) || is_within(arena, &range) {
        return None;
    }
    let edges = parts_within(arena, &range).flat_map(|part| [part.start, part.end]);
    let mut edges: Vec<usize> = edges.chain([range.start, range.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let replaces = placed & MAP_FIXED_NOREPLACE == 0;
    if is_map && !replaces && parts_within(arena, &range).any(|part| !space.pieces.is_empty(part)) {
        return Some(Answer::Is(EEXIST));
    }
    let mut result = Ok(if is_map { range.start } else { 0 });
    for part in edges.windows(2) {
        let mut args = args;
        (args[0], args[1]) = (part[0], part[1] - part[0]);
        if is_map {
            args[5] = args[5].wrapping_add(part[0] - range.start);
        }
        let done = make(space, arena, number, args);
        match done {
            // A kernel that does not support MAP_FIXED_NOREPLACE can map at another address.
            Ok(start) if is_map && start != part[0] => {
                let _left = make(space, arena, libc::SYS_munmap, [start, args[1], 0, 0, 0, 0]);
                result = Err(EEXIST);
            }
            Ok(_) => continue,
            Err(failed) => result = Err(failed),
        }
        if is_map && !replaces && part[0] > range.start {
            let mapped = [range.start, part[0] - range.start, 0, 0, 0, 0];
            let _left = make(space, arena, libc::SYS_munmap, mapped);
        }
        // If a part contains free addresses, `madvise` still applies to the later parts, as in the
        // kernel.
        if number != libc::SYS_madvise {
            break;
        }
    }
    Some(result.into())
}
