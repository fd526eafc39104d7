//! Handles calls that protect, lock or seal memory. Memory is managed only if it is unlocked,
//! readable and writable.

use super::Answer;
use crate::kernel::ENOMEM;
use crate::pieces::Kind;
use crate::space::Space;
use crate::uses;
use crate::windows::protect as protect_pages;
use dispatch::{Failed, system};
use libc::PROT_NONE;
use std::ops::Range;
use zmem::Arena;

pub(super) fn protect(
    space: &mut Space,
    arena: &Arena,
    range: Range<usize>,
    prot: i32,
) -> Result<usize, Failed> {
    let is_full = space.pieces.is_full(range.clone());
    let data = space.data_at(arena, range.start);
    for (part, kind) in space.pieces.parts(range) {
        match (kind, prot) {
            (None, _) => return Err(ENOMEM),
            (Some(Kind::Data), prot) if Some(prot) == data => {}
            (Some(Kind::Reserved), PROT_NONE) => {}
            (Some(Kind::Reserved), prot) if Some(prot) == data => {
                space.turn(arena, part, Some(Kind::Data))?;
            }
            (Some(kind), _) => {
                uses::make_plain(&space.pieces, arena, &part)?;
                protect_pages(&part, prot)?;
                let now = match (kind, prot) {
                    (Kind::Other, _) => Kind::Other,
                    (_, prot) if Some(prot) == data => Kind::Data,
                    _ => Kind::OtherProtection,
                };
                space.pieces.set(part.clone(), Some(now));
                uses::settle(&space.pieces, arena, &part)?;
            }
        }
    }
    if is_full { Ok(0) } else { Err(ENOMEM) }
}

/// Issues a call that locks or seals a range, or sets its protection key. First makes the range
/// plain, that is, memory that the kernel alone manages.
pub(super) fn hold(
    space: &mut Space,
    arena: &Arena,
    range: Range<usize>,
    number: i64,
    args: [usize; 6],
) -> Result<usize, Failed> {
    if !space.pieces.is_full(range.clone()) {
        return Err(ENOMEM);
    }
    uses::make_plain(&space.pieces, arena, &range)?;
    let done = system(number, args);
    if done.is_ok() {
        let kind = if number == libc::SYS_mseal { Kind::Sealed } else { Kind::Other };
        space.pieces.set(range.clone(), Some(kind));
    }
    uses::settle(&space.pieces, arena, &range)?;
    done
}

/// Handles `mlockall`. With MCL_CURRENT, the memory that is mapped now is no longer managed. With
/// MCL_FUTURE, new memory is not managed.
pub(super) fn lock_all(space: &mut Space, arena: &Arena, flags: usize) -> Answer {
    let flags = flags as i32;
    if flags & libc::MCL_CURRENT != 0 {
        let parts = arena.windows().flat_map(|window| space.pieces.parts(window));
        for (part, kind) in parts.collect::<Vec<_>>() {
            if kind == Some(Kind::Data) {
                if let Err(failed) = uses::make_plain(&space.pieces, arena, &part) {
                    return Answer::Is(failed);
                }
                space.pieces.set(part, Some(Kind::Other));
            }
        }
    }
    space.is_serving &= flags & libc::MCL_FUTURE == 0;
    Answer::Issue
}
