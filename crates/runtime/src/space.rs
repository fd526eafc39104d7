//! The program's mappings in the arena, and the resulting use of blocks.
//!
//! ```text
//!   pages   | Data Data Data Data | Data  -    -    -  | Reserved ...     | OtherProtection ... |
//!   block   |      Managed        |       Plain        |       Free       |        Plain        |
//! ```
//! pl-1: a block is managed if all its pages are `Data`, free if none of its pages has contents,
//! and plain otherwise. In a plain block, the kernel maps each page as the program has requested.
//!
//! # Safety
//! The program has requested each change that these functions make to the program's memory.
#![allow(unsafe_code)]

use crate::limits::Limits;
use crate::pieces::{Kind, Pieces};
use crate::uses;
use crate::windows::{data_at, edges, parts_within, refused, within};
use dispatch::{Failed, system};
use std::ops::Range;
use zmem::{Arena, Use};

const NO_FILE: usize = usize::MAX;

/// The program's mappings in the arena, and its break and limits.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) pieces: Pieces,
    /// Memory that children of a fork do not inherit: see the module `left_out`.
    pub(crate) left_out: Pieces<()>,
    /// The stacks of threads, which lie outside of the arena. Parts of a stack may have been
    /// unmapped.
    pub(crate) stacks: Pieces<()>,
    /// The windows whose addresses were chosen by the kernel, not by the program.
    pub(crate) chosen: Pieces<()>,
    /// The parts of mappings that lie outside of their mapping's window, with the kinds that the
    /// parts had when they were mapped.
    pub(crate) edges: Pieces<Kind>,
    /// Whether the kernel may refuse executable memory. If so, no executable memory is managed.
    pub(crate) is_exec_refused: bool,
    pub(crate) limits: Limits,
    /// The program's break, or `None` if the kernel handles changes of the break.
    pub(crate) brk: Option<Break>,
    /// Whether new mappings are managed; false after the program has locked all future memory.
    pub(crate) is_serving: bool,
}

/// The program's break.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Break {
    /// The initial break, which is the lowest possible break.
    pub(crate) first: usize,
    pub(crate) now: usize,
}

/// Maps private anonymous memory over a range.
pub(crate) fn map_over(range: &Range<usize>, prot: i32) -> Result<usize, Failed> {
    let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    if prot == libc::PROT_NONE {
        flags |= libc::MAP_NORESERVE;
    }
    let args = [range.start, range.len(), prot as usize, flags as usize, NO_FILE, 0];
    system(libc::SYS_mmap, args)
}

/// Maps a range PROT_NONE, so that no other mapping is placed there. Returns whether the range was
/// free.
pub(crate) fn reserve(range: &Range<usize>) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let flags = (flags | libc::MAP_NORESERVE) as usize;
    let args = [range.start, range.len(), libc::PROT_NONE as usize, flags, NO_FILE, 0];
    range.is_empty() || system(libc::SYS_mmap, args) == Ok(range.start)
}

impl Space {
    /// Returns the parts of the windows whose kind is `Data`.
    pub(crate) fn data(&self, arena: &Arena) -> Vec<Range<usize>> {
        let parts = arena.windows().flat_map(|window| self.pieces.parts(window));
        parts.filter(|(_, kind)| *kind == Some(Kind::Data)).map(|(part, _)| part).collect()
    }

    pub(crate) fn new(brk: Option<Break>, limits: Limits) -> Self {
        let [left_out, stacks, chosen] = [const { Pieces::new() }; 3];
        let (pieces, edges) = (Pieces::new(), Pieces::new());
        let (is_serving, is_exec_refused) = (true, false);
        Space { pieces, left_out, stacks, chosen, edges, is_exec_refused, limits, brk, is_serving }
    }

    /// Replaces the mappings in a range by new memory of the kind `Data` or `Reserved`, or unmaps
    /// the range. Children of a fork inherit the new memory.
    ///
    /// # Errors
    /// ENOMEM
    pub(crate) fn put(
        &mut self,
        arena: &Arena,
        range: Range<usize>,
        kind: Option<Kind>,
    ) -> Result<(), Failed> {
        self.turn(arena, range.clone(), kind)?;
        self.left_out.set(range, None);
        Ok(())
    }

    /// Replaces the mappings like [`put`](Self::put), but does not change whether children of a
    /// fork inherit the memory.
    ///
    /// # Errors
    /// ENOMEM
    pub(crate) fn turn(
        &mut self,
        arena: &Arena,
        range: Range<usize>,
        kind: Option<Kind>,
    ) -> Result<(), Failed> {
        let inner = within(arena, &range);
        let (prot, to) = match kind {
            Some(Kind::Data) => (data_at(arena, range.start), Use::Managed),
            _ => (libc::PROT_NONE, Use::Free),
        };
        for edge in edges(&range, &inner) {
            uses::make_plain(&self.pieces, arena, &edge)?;
            map_over(&edge, prot)?;
        }
        // SAFETY: the program has requested to map or unmap this range, so the program no longer
        // needs the old contents.
        unsafe {
            arena.set_use(inner.clone(), Use::Free).map_err(refused)?;
            if to == Use::Managed {
                arena.set_use(inner.clone(), to).map_err(refused)?;
            }
        }
        self.pieces.set(range.clone(), kind);
        edges(&range, &inner).try_for_each(|edge| uses::settle(&self.pieces, arena, &edge))
    }

    /// Returns the protection of managed memory at an address, or `None` if memory at this address
    /// must not be managed.
    pub(crate) fn data_at(&self, arena: &Arena, address: usize) -> Option<i32> {
        let prot = data_at(arena, address);
        (!self.is_exec_refused || prot & libc::PROT_EXEC == 0).then_some(prot)
    }

    /// Returns true if the program sees the whole range as one mapping of the kind `of`.
    pub(crate) fn is_one_mapping(&self, arena: &Arena, range: &Range<usize>, of: Kind) -> bool {
        let mut is_one = true;
        self.pieces.for_parts(range.clone(), |part, kind| {
            let is_edge = || kind.is_none() && self.edges.is_all(part.clone(), of);
            is_one &= kind == Some(of) || parts_within(arena, &part).next().is_none() && is_edge();
        });
        is_one
    }

    /// Makes executable memory plain, because the program sets a filter or an option that may
    /// forbid executable memory.
    pub(crate) fn leave_executable(&mut self, arena: &Arena) {
        self.is_exec_refused = true;
        for window in arena.windows().filter(|window| arena.is_executable(window.start)) {
            for (part, kind) in self.pieces.parts(window) {
                // A part that can't be made plain stays managed.
                if kind == Some(Kind::Data) && uses::make_plain(&self.pieces, arena, &part).is_ok()
                {
                    self.pieces.set(part, Some(Kind::OtherProtection));
                }
            }
        }
    }

    /// Returns whether a part of a range is sealed.
    pub(crate) fn is_sealed(&self, arena: &Arena, range: &Range<usize>) -> bool {
        let mut is_sealed = false;
        for inner in parts_within(arena, range) {
            self.pieces.for_parts(inner, |_, kind| is_sealed |= kind == Some(Kind::Sealed));
        }
        is_sealed
    }

    /// Returns the number of bytes that the program has mapped in `ranges`, and how many of these
    /// bytes are `Data`.
    pub(crate) fn counted(&self, ranges: impl Iterator<Item = Range<usize>>) -> (usize, usize) {
        let (mut mapped, mut data) = (0, 0);
        for within in ranges {
            self.pieces.for_parts(within, |part, kind| {
                mapped += if kind.is_some() { part.len() } else { 0 };
                data += if kind == Some(Kind::Data) { part.len() } else { 0 };
            });
        }
        (mapped, data)
    }

    /// Returns whether the program's resource limits forbid a mapping of `bytes` bytes that
    /// replaces the mappings in `over`.
    pub(crate) fn is_over_limit(
        &self,
        arena: &Arena,
        bytes: usize,
        is_data: bool,
        over: Range<usize>,
    ) -> bool {
        if self.limits.is_infinite() || bytes == 0 {
            return false;
        }
        let (all, all_data) = self.counted(arena.windows());
        let (old, old_data) = self.counted(parts_within(arena, &over));
        let [mapped, data] =
            [all - old, all_data - old_data].map(|part| part.saturating_add(bytes));
        self.limits.refuses(mapped as u64, if is_data { data as u64 } else { 0 })
    }
}
