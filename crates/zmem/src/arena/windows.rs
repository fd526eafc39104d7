//! Windows of an arena: further ranges of addresses that it manages (zm-W1).
//!
//! # Safety
//! After a window was added, the caller uses the addresses of the window only through the arena.
#![allow(unsafe_code)]

use super::Arena;
use crate::policy::CLOCK_WINDOW;
use crate::{Error, registry};
use std::ops::Range;

impl Arena {
    /// Returns the size in bytes of the largest window that can be added, or 0 if no window can be
    /// added.
    pub fn window_room(&self) -> usize {
        let pager = &self.calls.pager;
        pager.memory.room(self.window_gap()) / self.block() * self.block()
    }

    /// Returns the size in bytes of the gap before a window: a chunk or a clock window, whichever
    /// is larger, because the evicting thread handles one clock window at a time (zm-W2).
    fn window_gap(&self) -> usize {
        self.calls.pager.chunk_bytes.max(CLOCK_WINDOW * self.block())
    }

    /// Returns whether managed memory at an address is executable.
    pub fn is_executable(&self, address: usize) -> bool {
        self.calls.pager.memory.is_executable(address)
    }

    /// Adds a window, which exists as long as the arena. All of its blocks are free. If
    /// `is_executable`, its managed blocks are executable.
    ///
    /// # Errors
    /// [`Error::Size`] if the window begins or ends within a block. Other errors are
    /// [`Error::Overlap`], [`Error::Regions`], and [`Error::System`], which is also returned if the
    /// window is larger than [`window_room`](Self::window_room).
    ///
    /// # Safety
    /// The mappings in the range belong to the caller, and no thread uses them. This function
    /// unmaps them.
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
