//! `mremap`.
//!
//! # Safety
//! The program has asked for what is done to its memory.
#![allow(unsafe_code)]

use super::{Answer, error, is_within, map, pages, touches};
use crate::pieces::Kind;
use crate::space::Space;
use crate::system::{Failed, system};
use libc::{EFAULT, EINVAL, ENOMEM, MADV_DONTFORK, MREMAP_FIXED, MREMAP_MAYMOVE};
use libc::{SYS_madvise, SYS_mremap};
use std::ops::Range;
use zmem::Arena;

/// So many bytes are moved before those that they were are freed.
const STEP: usize = 1 << 20;

pub(super) fn remap(space: &mut Space, arena: &Arena, args: [usize; 6]) -> Answer {
    let [old, old_bytes, new_bytes, flags, to, _] = args;
    let ranges = (|| {
        let old = pages(old, old_bytes)?;
        let to = if flags as i32 & MREMAP_FIXED != 0 { pages(to, new_bytes)? } else { 0..0 };
        Ok::<_, Failed>((old, to))
    })();
    let Ok((old, to)) = ranges else { return Answer::Issue };
    let Some(bytes) = new_bytes.checked_next_multiple_of(page::page_size()) else {
        return Answer::Issue;
    };
    let is_ours = touches(arena, &old);
    if !is_ours && !touches(arena, &to) {
        return Answer::Issue;
    }
    let flags = flags as i32;
    let is_cut = |range: &Range<usize>| touches(arena, range) && !is_within(arena, range);
    if bytes == 0 || is_cut(&old) || is_cut(&to) {
        return Answer::Is(error(EINVAL));
    }
    let is_executable = arena.is_executable(old.start) || arena.is_executable(to.start);
    let mut is_data = is_ours && !old.is_empty() && !is_executable;
    space.pieces.for_parts(old.clone(), |_, kind| is_data &= kind == Some(Kind::Data));
    match is_data && (to.is_empty() || touches(arena, &to)) && flags & libc::MREMAP_DONTUNMAP == 0 {
        true => remap_data(space, arena, old, bytes, flags, to).into(),
        false => remap_plain(space, arena, old, args, to).into(),
    }
}

/// Moves, grows or shrinks data within the arena.
fn remap_data(
    space: &mut Space,
    arena: &Arena,
    old: Range<usize>,
    bytes: usize,
    flags: i32,
    to: Range<usize>,
) -> Result<usize, Failed> {
    let is_left_out = space.is_left_out(old.start);
    if flags & MREMAP_FIXED == 0 {
        if bytes <= old.len() {
            if bytes < old.len() {
                map::unmap(space, arena, old.start + bytes..old.end)?;
            }
            return Ok(old.start);
        }
        let more = old.end..old.start + bytes;
        if is_within(arena, &(old.start..more.end)) && space.pieces.is_empty(more.clone()) {
            space.put(arena, more.clone(), Some(Kind::Data))?;
            space.leave_out(more, is_left_out);
            return Ok(old.start);
        }
    }
    if flags & MREMAP_MAYMOVE == 0 {
        return Err(error(ENOMEM));
    }
    let to = match flags & MREMAP_FIXED {
        0 => space.find(arena, bytes).ok_or(error(ENOMEM))?,
        _ if to.start < old.end && old.start < to.end => return Err(error(EINVAL)),
        _ => to.start,
    };
    space.put(arena, to..to + bytes, Some(Kind::Data))?;
    space.leave_out(to..to + bytes, is_left_out);
    let moved = bytes.min(old.len());
    for at in (0..moved).step_by(STEP) {
        let part = at..moved.min(at + STEP);
        // SAFETY: both are the program's, readable and writable, and do not overlap; they are there
        // when they are touched. No reference of ours points to them.
        unsafe {
            let from = std::ptr::with_exposed_provenance::<u8>(old.start + at);
            let into = std::ptr::with_exposed_provenance_mut::<u8>(to + at);
            into.copy_from_nonoverlapping(from, part.len());
        }
        // Its data are in the new place: what can't be freed stays mapped, and nothing is lost.
        let _left = space.put(arena, old.start + part.start..old.start + part.end, None);
    }
    if moved < old.len() {
        let _left = space.put(arena, old.start + moved..old.end, None);
    }
    Ok(to)
}

/// Has the system do it, to or from plain memory; what it leaves in the arena is ours again.
fn remap_plain(
    space: &mut Space,
    arena: &Arena,
    old: Range<usize>,
    args: [usize; 6],
    to: Range<usize>,
) -> Result<usize, Failed> {
    let is_ours = touches(arena, &old);
    let is_left_out = is_ours && space.is_left_out(old.start);
    if is_ours {
        if !space.pieces.is_full(old.clone()) {
            return Err(error(EFAULT));
        }
        space.make_plain(arena, &old)?;
    }
    let is_to_ours = touches(arena, &to);
    if is_to_ours {
        space.make_plain(arena, &to)?;
    }
    let done = system(SYS_mremap, args);
    let Ok(now) = done else {
        if is_ours {
            space.settle(arena, &old)?;
        }
        if is_to_ours {
            space.settle(arena, &to)?;
        }
        return done;
    };
    let is_kept = args[3] as i32 & libc::MREMAP_DONTUNMAP != 0;
    if is_ours && !is_kept && now != old.start {
        space.pieces.set(old.clone(), Some(Kind::Other));
        space.put(arena, old.clone(), None)?;
    } else if is_ours {
        if args[2] < old.len() {
            let rest = now + args[2].next_multiple_of(page::page_size())..old.end;
            space.put(arena, rest, None)?;
        }
        space.settle(arena, &old)?;
    }
    if is_to_ours {
        space.pieces.set(to.clone(), Some(Kind::Other));
        space.left_out.set(to, is_left_out.then_some(()));
    } else if is_left_out && now != old.start {
        system(SYS_madvise, [now, args[2], MADV_DONTFORK as usize, 0, 0, 0])?;
    }
    Ok(now)
}
