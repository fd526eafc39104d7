//! The program's break: what lies above the arena's start is served from the arena.

use super::Answer;
use crate::pieces::Kind;
use crate::space::{Space, system};
use zmem::Arena;

/// Moves the break. As the system does, it returns where it is after: it stays where it was if it
/// can't move.
pub(super) fn brk(space: &mut Space, arena: &Arena, wanted: usize) -> Answer {
    let start = arena.addresses().start;
    let page = page::page_size();
    if wanted <= start {
        // A wanted end of 0 only asks.
        let is_above = space.brk > start;
        if wanted == 0 && is_above {
            return Answer::Is(space.brk as isize);
        }
        let now = system(libc::SYS_brk, [wanted, 0, 0, 0, 0, 0]);
        if is_above && now == Ok(wanted) {
            let _freed = space.put(arena, start..space.brk.next_multiple_of(page), None);
            space.brk = start;
        } else if is_above {
            return Answer::Is(space.brk as isize);
        }
        return now.into();
    }
    let now =
        if space.brk > start { Ok(start) } else { system(libc::SYS_brk, [start, 0, 0, 0, 0, 0]) };
    if now != Ok(start) {
        return now.into();
    }
    let (old, new) = (space.brk.next_multiple_of(page), wanted.next_multiple_of(page));
    let is_done = match new > old {
        true => {
            new <= arena.addresses().end
                && space.pieces.is_empty(old..new)
                && space.put(arena, old..new, Some(Kind::Data)).is_ok()
        }
        false => new == old || space.put(arena, new..old, None).is_ok(),
    };
    if is_done {
        space.brk = wanted;
        return Answer::Is(wanted as isize);
    }
    match space.brk > start {
        true => Answer::Is(space.brk as isize),
        false => now.into(),
    }
}
