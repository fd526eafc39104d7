//! The program's break, which the runtime moves instead of the kernel. The heap that ends at the
//! program's break begins at the kernel's break, or above `PIE_BASE` if the kernel's break is low.
//! The heap continues in the arena.
//!
//! ```text
//!   first (the kernel's) .. PROT_NONE above the break .. | arena: Data up to the break
//! ```

use super::Answer;
use crate::kernel::ENOMEM;
use crate::pieces::Kind;
use crate::space::{Break, Space, map_over};
use crate::windows::{DATA, protect};
use dispatch::Failed;
use zmem::Arena;

/// Moves the break. As in the kernel, returns the new break, or the old break if the break can't be
/// moved.
pub(super) fn brk(space: &mut Space, arena: &Arena, wanted: usize) -> Answer {
    let Some(Break { first, now }) = space.brk else { return Answer::Issue };
    let may_move = first <= wanted
        && wanted <= arena.addresses().end
        && !space.is_over_limit(arena, wanted.saturating_sub(now), true, 0..0);
    if may_move && move_to(space, arena, now, wanted).is_ok() {
        space.brk = Some(Break { first, now: wanted });
        return Answer::Is(wanted as isize);
    }
    Answer::Is(now as isize)
}

/// Maps or unmaps the memory between the old break and the new break.
///
/// # Errors
/// ENOMEM: another mapping uses these addresses.
fn move_to(space: &mut Space, arena: &Arena, now: usize, wanted: usize) -> Result<(), Failed> {
    let page = page::page_size();
    let (old, new) = (now.next_multiple_of(page), wanted.next_multiple_of(page));
    let (is_more, moved) = (new > old, old.min(new)..old.max(new));
    let start = arena.addresses().start;
    let below = moved.start..moved.end.min(start);
    let above = moved.start.max(start)..moved.end;
    if is_more && !above.is_empty() && !space.pieces.is_empty(above.clone()) {
        return Err(ENOMEM);
    }
    if !above.is_empty() {
        space.put(arena, above, is_more.then_some(Kind::Data))?;
    }
    match is_more {
        _ if below.is_empty() => Ok(()),
        true => protect(&below, DATA).map(drop),
        // The addresses stay reserved.
        false => map_over(&below, libc::PROT_NONE).map(drop),
    }
}
