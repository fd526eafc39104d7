//! Windows of an arena: further ranges of addresses that it manages (zm-W1).
//!
//! # Safety
//! The caller gives up the addresses of a window, and from then on uses them only through the
//! arena.
#![allow(unsafe_code)]

use super::Arena;
use crate::policy::PIECE;
use crate::{Error, registry};
use std::ops::Range;

impl Arena {
    /// Returns the addresses of each window, in the order in which they were added.
    pub fn windows(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.calls.pager.memory.windows()
    }

    /// Returns the bytes of the largest window that can be added, 0 if none can.
    pub fn window_room(&self) -> usize {
        let pager = &self.calls.pager;
        pager.memory.room(self.window_gap()) / self.block() * self.block()
    }

    /// Returns the bytes of a gap: a chunk, or a piece if that is larger, because the evictor
    /// handles one piece at a time (zm-W2).
    fn window_gap(&self) -> usize {
        self.calls.pager.chunk_bytes.max(PIECE * self.block())
    }

    /// Returns whether managed memory at an address is executable.
    pub fn is_executable(&self, address: usize) -> bool {
        self.calls.pager.memory.is_executable(address)
    }

    /// Adds a window, which stays as long as the arena exists. All of its blocks are free. If
    /// `is_executable`, its managed blocks are executable.
    ///
    /// # Errors
    /// [`Error::Size`] if the window begins or ends within a block; [`Error::Overlap`];
    /// [`Error::Regions`]; [`Error::System`], also if the window is larger than the room.
    ///
    /// # Safety
    /// The mappings in the range belong to the caller, and nothing uses them. They are unmapped.
    pub unsafe fn add_window(&self, range: Range<usize>, is_executable: bool) -> Result<(), Error> {
        let (pager, block) = (&self.calls.pager, self.block());
        let (bytes, is_cut) = (range.len(), !(range.start | range.end).is_multiple_of(block));
        if range.is_empty() || is_cut {
            return Err(Error::Size { bytes, block });
        }
        // SAFETY: the contract of this function covers the mappings; `drop` removes the pager from
        // the registry. `map` runs on one thread at a time.
        unsafe {
            registry::add(pager, range.clone(), || {
                let added = pager.memory.add_window(range, self.window_gap(), is_executable);
                added.map_err(Error::system("address space for a window"))
            })
        }
    }
}
