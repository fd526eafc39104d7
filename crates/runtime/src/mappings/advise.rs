//! Handles `madvise`.
//!
//! # Safety
//! This module changes the program's memory only as the program has requested.
#![allow(unsafe_code)]

use super::Answer;
use crate::kernel::{ENOMEM, MADV_COLLAPSE};
use crate::left_out;
use crate::pieces::Kind;
use crate::space::Space;
use crate::uses;
use crate::windows::{around, edges, within};
use dispatch::{Failed, system};
use libc::{MADV_COLD, MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_FREE};
use libc::{MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_WILLNEED, SYS_madvise};
use std::ops::Range;
use zmem::{Advice, Arena, Use};

/// The effect of an `madvise` value on managed memory.
enum Means {
    /// The memory is zeroed.
    Drop,
    Is(Advice),
    /// The runtime ignores the value.
    Nothing,
    /// Children of a fork do not inherit the memory (`true`), or inherit it again (`false`).
    LeftOut(bool),
    /// The runtime does not support the value, so the memory becomes plain: the kernel alone
    /// manages it.
    Other,
}

fn meaning(advice: i32) -> Means {
    match advice {
        // For MADV_FREE, the kernel could free the memory at any later time. The runtime frees it
        // at once.
        MADV_DONTNEED | MADV_FREE | MADV_DONTNEED_LOCKED => Means::Drop,
        MADV_COLD | MADV_PAGEOUT => Means::Is(Advice::Cold),
        MADV_WILLNEED | MADV_POPULATE_READ | MADV_POPULATE_WRITE => Means::Is(Advice::Hot),
        libc::MADV_NORMAL | libc::MADV_RANDOM | libc::MADV_SEQUENTIAL => Means::Nothing,
        libc::MADV_HUGEPAGE | libc::MADV_NOHUGEPAGE | MADV_COLLAPSE => Means::Nothing,
        libc::MADV_MERGEABLE | libc::MADV_UNMERGEABLE => Means::Nothing,
        libc::MADV_DODUMP | libc::MADV_DONTDUMP => Means::Nothing,
        libc::MADV_DONTFORK => Means::LeftOut(true),
        libc::MADV_DOFORK => Means::LeftOut(false),
        _ => Means::Other,
    }
}

pub(super) fn advise(space: &mut Space, arena: &Arena, range: Range<usize>, advice: i32) -> Answer {
    let inner = range;
    let done = match meaning(advice) {
        Means::Nothing => Ok(()),
        Means::LeftOut(is_left_out) => {
            left_out::leave_out(space, inner.clone(), is_left_out);
            Ok(())
        }
        Means::Other => other(space, arena, inner.clone(), advice),
        means => {
            uses::uses(&space.pieces, arena, &inner).into_iter().try_for_each(|(blocks, of)| {
                let part = blocks.start.max(inner.start)..blocks.end.min(inner.end);
                match (of, &means) {
                    (Use::Free, _) => Ok(()),
                    (Use::Plain, _) => issue(&part, advice),
                    (Use::Managed, Means::Is(advice)) => {
                        let _done = arena.advise(around(arena, &part), *advice);
                        Ok(())
                    }
                    (Use::Managed, _) => {
                        drop_data(arena, part);
                        Ok(())
                    }
                }
            })
        }
    };
    let is_full = space.pieces.is_full(inner);
    let done = done.and(if is_full { Ok(0) } else { Err(ENOMEM) });
    done.into()
}

/// Zeroes a part of managed memory.
fn drop_data(arena: &Arena, part: Range<usize>) {
    let inner = within(arena, &part);
    for edge in edges(&part, &inner) {
        // SAFETY: the memory is the program's, readable and writable, and the program requested
        // zeros. The write fills the block first if the block is evicted. The runtime has no
        // reference to the memory.
        unsafe {
            let start = std::ptr::with_exposed_provenance_mut::<u8>(edge.start);
            start.write_bytes(0, edge.len());
        }
    }
    // SAFETY: the program requested zeros in this range.
    let _within = unsafe { arena.dont_need(inner) };
}

/// Makes memory plain, so that the kernel can apply an `madvise` value that the runtime does not
/// support.
fn other(space: &mut Space, arena: &Arena, range: Range<usize>, advice: i32) -> Result<(), Failed> {
    uses::make_plain(&space.pieces, arena, &range)?;
    let done = issue(&range, advice);
    if done.is_ok() {
        for (part, kind) in space.pieces.parts(range.clone()) {
            if kind.is_some() {
                space.pieces.set(part, Some(Kind::Other));
            }
        }
    }
    uses::settle(&space.pieces, arena, &range)?;
    done
}

fn issue(range: &Range<usize>, advice: i32) -> Result<(), Failed> {
    system(SYS_madvise, [range.start, range.len(), advice as usize, 0, 0, 0]).map(drop)
}
