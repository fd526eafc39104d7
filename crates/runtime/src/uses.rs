//! Derives the use of blocks from the program's mappings (pl-1).
//!
//! # Safety
//! The program has requested each change that these functions make to the program's memory.
#![allow(unsafe_code)]

use crate::pieces::{Kind, Pieces};
use crate::windows::{around, protect, refused, within};
use dispatch::Failed;
use std::ops::Range;
use zmem::{Arena, Use};

/// Returns the use of a block according to pl-1.
fn use_of(pieces: &Pieces, block: Range<usize>) -> Use {
    let (mut is_data, mut is_free) = (true, true);
    pieces.for_parts(block, |_, kind| {
        is_data &= kind == Some(Kind::Data);
        is_free &= matches!(kind, None | Some(Kind::Reserved));
    });
    match (is_data, is_free) {
        (true, _) => Use::Managed,
        (_, true) => Use::Free,
        _ => Use::Plain,
    }
}

/// Returns the blocks that overlap a range, and their uses. Adjacent blocks with the same use
/// are merged.
pub(crate) fn uses(
    pieces: &Pieces,
    arena: &Arena,
    range: &Range<usize>,
) -> Vec<(Range<usize>, Use)> {
    let block = arena.block();
    let mut uses: Vec<(Range<usize>, Use)> = Vec::new();
    let mut add = |part: Range<usize>, of: Use| match uses.last_mut() {
        Some((last, used)) if *used == of && last.end == part.start => last.end = part.end,
        _ if part.is_empty() => {}
        _ => uses.push((part, of)),
    };
    let around = around(arena, range);
    let mut next = around.start;
    // Blocks within one piece have the same use. A block that contains the edge of a piece is
    // examined separately.
    for (part, kind) in pieces.parts(around.clone()) {
        let inner = within(arena, &(part.start.max(next)..part.end));
        while next < inner.start.min(around.end) {
            add(next..next + block, use_of(pieces, next..next + block));
            next += block;
        }
        let of = match kind {
            Some(Kind::Data) => Use::Managed,
            None | Some(Kind::Reserved) => Use::Free,
            _ => Use::Plain,
        };
        add(inner.clone(), of);
        next = next.max(inner.end);
    }
    while next < around.end {
        add(next..next + block, use_of(pieces, next..next + block));
        next += block;
    }
    uses
}

/// Makes all blocks that overlap a range plain. The mappings of the blocks' pages stay as the
/// program has requested. Free and reserved pages are PROT_NONE.
///
/// # Errors
/// ENOMEM
pub(crate) fn make_plain(
    pieces: &Pieces,
    arena: &Arena,
    range: &Range<usize>,
) -> Result<(), Failed> {
    for (part, of) in uses(pieces, arena, range) {
        if of != Use::Plain {
            // SAFETY: no data are lost, and the program has made a call that requires plain blocks.
            unsafe { arena.set_use(part.clone(), Use::Plain) }.map_err(refused)?;
        }
        if of == Use::Free {
            protect(&part, libc::PROT_NONE)?;
        }
    }
    Ok(())
}

/// Gives all blocks that overlap a range the use that pl-1 prescribes, after they were made plain.
///
/// # Errors
/// ENOMEM
pub(crate) fn settle(pieces: &Pieces, arena: &Arena, range: &Range<usize>) -> Result<(), Failed> {
    for (part, of) in uses(pieces, arena, range) {
        if of != Use::Plain {
            // SAFETY: all pages of blocks that become managed are `Data`.
            unsafe { arena.set_use(part, of) }.map_err(refused)?;
        }
    }
    Ok(())
}
