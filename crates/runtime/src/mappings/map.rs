//! Handles `mmap` and `munmap`.

use super::kind::{is_executable_data, is_private_anonymous, kind_of};
use super::windows::map_outside;
use super::{Answer, pages, touches};
use crate::kernel::{EEXIST, EINVAL};
use crate::pieces::Kind;
use crate::placing;
use crate::space::Space;
use crate::uses;
use crate::windows::{DATA, within};
use dispatch::{Failed, system};
use libc::{MAP_FIXED, MAP_FIXED_NOREPLACE, PROT_WRITE};
use std::ops::Range;
use zmem::{Advice, Arena};

/// Returns true if an `mmap` call with the arguments `args` would exceed the program's limits.
pub(super) fn is_over_limit(space: &Space, arena: &Arena, args: [usize; 6]) -> bool {
    let [start, bytes, prot, flags, ..] = args;
    let (prot, flags) = (prot as i32, flags as i32);
    let is_data = prot & PROT_WRITE != 0 && flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
    let replaced = match pages(start, bytes) {
        Ok(range) if flags & MAP_FIXED != 0 => range,
        _ => 0..0,
    };
    space.is_over_limit(arena, bytes, is_data, replaced)
}

pub(super) fn map(space: &mut Space, arena: &Arena, args: [usize; 6]) -> Answer {
    let [start, bytes, prot, flags, ..] = args;
    let (prot, flags) = (prot as i32, flags as i32);
    let is_fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
    let data = if is_fixed { space.data_at(arena, start) } else { Some(DATA) };
    let kind = kind_of(prot, flags, data);
    let page = page::page_size();
    if is_fixed {
        return match pages(start, bytes) {
            Ok(range) if !range.is_empty() && touches(arena, &range) => {
                map_at(space, arena, range, kind, args).into()
            }
            _ => map_outside(space, arena, kind, args),
        };
    }
    if is_library(flags)
        && space.is_serving
        && let Ok(of_file) = pages(0, bytes)
        && let Some(found) = placing::find_for_library(space, arena, of_file.len())
    {
        let range = found..found + of_file.len();
        return map_at(space, arena, range, None, args).into();
    }
    if flags & libc::MAP_STACK != 0 {
        return map_stack(space, args);
    }
    let is_executable = is_executable_data(prot, flags) && !space.is_exec_refused;
    let hint = start / page * page;
    let wanted = pages(hint, bytes).ok().filter(|range| !range.is_empty());
    let managed = kind.or(is_executable.then_some(Kind::Data)).filter(|_| space.is_serving);
    let Some((managed, wanted)) = managed.zip(wanted) else {
        // If the call specifies no address, the kernel chooses an address outside of the arena,
        // because the kernel has mapped the whole arena.
        return Answer::Issue;
    };
    let in_windows = placing::find_in_windows(space, arena, &wanted, is_executable);
    let found = match is_executable {
        true => in_windows,
        false => {
            let of = arena.addresses();
            let is_within = of.start <= hint && wanted.end <= of.end;
            let is_free = is_within && space.pieces.is_empty(wanted.clone());
            let by_hint = if is_free { Some(hint) } else { in_windows.filter(|_| hint != 0) };
            by_hint.or_else(|| placing::find(space, arena, wanted.len())).or(in_windows)
        }
    };
    let Some(found) = found else { return map_outside(space, arena, kind, args) };
    let kind = managed;
    let range = found..found + wanted.len();
    match space.put(arena, range.clone(), Some(kind)) {
        Ok(()) => {
            if flags & libc::MAP_POPULATE != 0 && kind == Kind::Data {
                let _done = arena.advise(within(arena, &range), Advice::Hot);
            }
            Answer::Is(found as isize)
        }
        Err(_) => Answer::Issue,
    }
}

/// Lets the kernel map a thread's stack, and records the stack's addresses.
fn map_stack(space: &mut Space, args: [usize; 6]) -> Answer {
    let mapped = system(libc::SYS_mmap, args);
    if let Ok(range) = mapped.and_then(|start| pages(start, args[1])) {
        space.stacks.set(range, Some(()));
    }
    mapped.into()
}

/// Returns whether a mapping has the flags with which glibc's loader maps a library.
fn is_library(flags: i32) -> bool {
    flags == libc::MAP_PRIVATE | libc::MAP_DENYWRITE
}

/// Handles an `mmap` call with the arguments `args`, but maps `range`, a range of the arena.
/// Replaces existing mappings in the range, unless the program requests MAP_FIXED_NOREPLACE.
fn map_at(
    space: &mut Space,
    arena: &Arena,
    range: Range<usize>,
    kind: Option<Kind>,
    mut args: [usize; 6],
) -> Result<usize, Failed> {
    let flags = args[3] as i32;
    let replaces = flags & MAP_FIXED_NOREPLACE == 0;
    if !replaces && !space.pieces.is_empty(range.clone()) {
        return Err(EEXIST);
    }
    if let Some(kind) = kind {
        space.put(arena, range.clone(), Some(kind))?;
        return Ok(range.start);
    }
    uses::make_plain(&space.pieces, arena, &range)?;
    (args[0], args[3]) = (range.start, ((flags & !MAP_FIXED_NOREPLACE) | MAP_FIXED) as usize);
    let mapped = system(libc::SYS_mmap, args);
    let is_held = is_private_anonymous(flags & !libc::MAP_STACK);
    if mapped.is_ok() {
        space
            .pieces
            .set(range.clone(), Some(if is_held { Kind::OtherProtection } else { Kind::Other }));
        space.left_out.set(range.clone(), None);
    }
    uses::settle(&space.pieces, arena, &range)?;
    mapped
}

/// Unmaps a range.
pub(super) fn unmap(space: &mut Space, arena: &Arena, range: Range<usize>) -> Result<(), Failed> {
    if range.is_empty() {
        return Err(EINVAL);
    }
    // Only mapped parts are changed. Free addresses remain free.
    for (part, kind) in space.pieces.parts(range) {
        if kind.is_some() {
            space.put(arena, part, None)?;
        }
    }
    Ok(())
}
