//! Handles `mremap`.

use super::{Answer, is_within, make, map, pages, touches};
use crate::kernel::{EFAULT, EINVAL, ENOMEM};
use crate::left_out;
use crate::pieces::Kind;
use crate::policy::MOVE_STEP;
use crate::space::{Space, reserve};
use crate::uses;
use crate::windows::{data_at, parts_within};
use dispatch::{Failed, system};
use libc::{MADV_DONTFORK, MREMAP_FIXED, MREMAP_MAYMOVE};
use libc::{MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, SYS_madvise, SYS_mmap, SYS_mremap, SYS_munmap};
use std::ops::Range;
use zmem::Arena;

pub(super) fn remap(space: &mut Space, arena: &Arena, args: [usize; 6]) -> Answer {
    let [old, old_bytes, new_bytes, flags, to, _] = args;
    let flags = flags as i32;
    let ranges = (|| {
        let old = pages(old, old_bytes)?;
        let to = if flags & MREMAP_FIXED != 0 { pages(to, new_bytes)? } else { 0..0 };
        Ok::<_, Failed>((old, to))
    })();
    let bytes = new_bytes.checked_next_multiple_of(page::page_size()).unwrap_or(0);
    let Ok((old, to)) = ranges else { return Answer::Issue };
    let is_ours = touches(arena, &old);
    // If arguments are invalid, the kernel returns an error before it changes anything.
    if bytes == 0 || is_wrong(flags, old_bytes != new_bytes) || !(is_ours || touches(arena, &to)) {
        return Answer::Issue;
    }
    let is_there = parts_within(arena, &old).all(|part| space.pieces.is_full(part));
    let stays = flags & (MREMAP_FIXED | libc::MREMAP_DONTUNMAP) == 0 && bytes <= old.len();
    if is_ours && is_there && stays {
        return unmap(space, arena, old.start + bytes..old.end).map(|()| old.start).into();
    }
    let is_all = |kind| parts_within(arena, &old).all(|part| space.pieces.is_all(part, kind));
    let mut kinds = [Kind::Data, Kind::Reserved].into_iter();
    let kind = kinds.find(|kind| is_ours && flags & libc::MREMAP_DONTUNMAP == 0 && is_all(*kind));
    if let Some(kind) = kind.filter(|_| is_within(arena, &old)) {
        return move_or_grow(space, arena, kind, old, bytes, flags, to).into();
    }
    let is_one = kind.is_some_and(|kind| space.is_one_mapping(arena, &old, kind));
    // For the kernel, memory that lies in several windows, or partly outside of a window, consists
    // of several mappings. If the kernel refuses to move several mappings (before Linux 6.17), the
    // memory is copied.
    let done = match remap_plain(space, arena, old.clone(), args, to.clone()) {
        Err(failed) => match kind.filter(|_| failed == EFAULT && is_one) {
            Some(kind) => move_or_grow(space, arena, kind, old, bytes, flags, to),
            None => Err(failed),
        },
        done => done,
    };
    done.into()
}

/// Returns true if some flags of an `mremap` call are unknown or contradict each other.
fn is_wrong(flags: i32, is_resized: bool) -> bool {
    let has = |flag| flags & flag != 0;
    let may_move = has(MREMAP_MAYMOVE);
    has(!(MREMAP_FIXED | MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP))
        || has(MREMAP_FIXED) && !may_move
        || has(libc::MREMAP_DONTUNMAP) && (!may_move || is_resized)
}

/// Moves or grows memory of the kind `Data` or `Reserved`. Parts of the memory can lie outside of
/// the arena.
fn move_or_grow(
    space: &mut Space,
    arena: &Arena,
    kind: Kind,
    old: Range<usize>,
    bytes: usize,
    flags: i32,
    to: Range<usize>,
) -> Result<usize, Failed> {
    let first = parts_within(arena, &old).next().map_or(old.start, |part| part.start);
    let is_left_out = left_out::is_left_out(space, first);
    let prot = if kind == Kind::Data { data_at(arena, first) } else { libc::PROT_NONE };
    if flags & MREMAP_FIXED == 0 {
        let more = old.end..old.start.checked_add(bytes).ok_or(ENOMEM)?;
        if is_within(arena, &(old.start..more.end)) && space.pieces.is_empty(more.clone()) {
            space.put(arena, more.clone(), Some(kind))?;
            left_out::leave_out(space, more, is_left_out);
            return Ok(old.start);
        }
    }
    if flags & MREMAP_MAYMOVE == 0 {
        return Err(ENOMEM);
    }
    let is_fixed = flags & MREMAP_FIXED != 0;
    if is_fixed && to.start < old.end && old.start < to.end {
        return Err(EINVAL);
    }
    let how = MAP_PRIVATE | MAP_ANONYMOUS | if is_fixed { MAP_FIXED } else { 0 };
    let place = [to.start, bytes, prot as usize, how as usize, usize::MAX, 0];
    // `map::map` does not check the program's resource limits. They apply only to the growth, which
    // was checked before this call.
    let to = match is_fixed && !is_within(arena, &to) {
        true => make(space, arena, SYS_mmap, place)?,
        false => match map::map(space, arena, place) {
            Answer::Issue => system(SYS_mmap, place)?,
            Answer::Is(failed @ ..0) => return Err(failed),
            Answer::Is(start) => start as usize,
        },
    };
    if is_left_out {
        // Parts of the new addresses can lie outside of the arena.
        make(space, arena, SYS_madvise, [to, bytes, MADV_DONTFORK as usize, 0, 0, 0])?;
    }
    let moved = bytes.min(old.len());
    let is_whole = is_within(arena, &old);
    let copied = if kind == Kind::Data { moved } else { 0 };
    for at in (0..copied).step_by(MOVE_STEP) {
        let part = at..copied.min(at + MOVE_STEP);
        if !dispatch::copy_memory(to + at, old.start + at, part.len()) {
            // The copy fails only if a part outside of the arena is not readable or writable. In
            // this case, `is_whole` is false, so no old address has been unmapped.
            unmap(space, arena, to..to + bytes)?;
            return Err(EFAULT);
        }
        // The data have been copied. If the old addresses can't be unmapped, they stay mapped, and
        // no data are lost.
        if is_whole {
            let _left = unmap(space, arena, old.start + part.start..old.start + part.end);
        }
    }
    if !is_whole || copied < moved {
        let _left = unmap(space, arena, old.start..old.start + moved);
    }
    let _left = unmap(space, arena, old.start + moved..old.end);
    Ok(to)
}

/// Unmaps a range, which may be empty.
fn unmap(space: &mut Space, arena: &Arena, range: Range<usize>) -> Result<(), Failed> {
    match range.is_empty() {
        true => Ok(()),
        false => make(space, arena, SYS_munmap, [range.start, range.len(), 0, 0, 0, 0]).map(drop),
    }
}

/// Makes memory plain, and lets the kernel move it into, out of or within the arena. Addresses that
/// become free remain part of the arena.
fn remap_plain(
    space: &mut Space,
    arena: &Arena,
    old: Range<usize>,
    args: [usize; 6],
    to: Range<usize>,
) -> Result<usize, Failed> {
    let ours: Vec<_> = parts_within(arena, &old).collect();
    let to_ours: Vec<_> = parts_within(arena, &to).collect();
    let is_left_out = ours.first().is_some_and(|part| left_out::is_left_out(space, part.start));
    if ours.iter().any(|part| !space.pieces.is_full(part.clone())) {
        return Err(EFAULT);
    }
    ours.iter()
        .chain(&to_ours)
        .try_for_each(|part| uses::make_plain(&space.pieces, arena, part))?;
    let done = system(SYS_mremap, args);
    let Ok(now) = done else {
        ours.iter().try_for_each(|part| uses::settle(&space.pieces, arena, part))?;
        for part in to_ours {
            // Some kernels unmap the new addresses before they detect that the memory consists of
            // several mappings.
            if reserve(&part) {
                space.pieces.set(part.clone(), Some(Kind::Other));
                space.put(arena, part, None)?;
            } else {
                uses::settle(&space.pieces, arena, &part)?;
            }
        }
        return done;
    };
    let is_kept = args[3] as i32 & libc::MREMAP_DONTUNMAP != 0;
    for part in &ours {
        if !is_kept && now != old.start {
            space.pieces.set(part.clone(), Some(Kind::Other));
            space.put(arena, part.clone(), None)?;
        } else {
            uses::settle(&space.pieces, arena, part)?;
        }
    }
    for part in to_ours {
        space.pieces.set(part.clone(), Some(Kind::Other));
        space.left_out.set(part, is_left_out.then_some(()));
    }
    if to.is_empty() && is_left_out && now != old.start {
        system(SYS_madvise, [now, args[2], MADV_DONTFORK as usize, 0, 0, 0])?;
    }
    Ok(now)
}
