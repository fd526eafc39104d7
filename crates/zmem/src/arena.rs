//! An arena: a range of addresses in which the caller chooses the blocks that the pager manages.
//!
//! # Safety
//! The arena's range is mapped as long as the arena exists. During a call of an unsafe function,
//! only the caller uses the blocks of the passed range, and this crate holds no reference to these
//! blocks. After the caller has added a window (zm-W1), the caller uses the window's addresses only
//! through the arena.
#![allow(unsafe_code)]

mod holding;

use crate::calls::Calls;
use crate::limit::SharedLimit;
use crate::memory::Managed;
use crate::pager::{Contents, Pager};
use crate::policy::{CHUNK_BYTES, CLOCK_WINDOW};
use crate::uses::{self, Use};
use crate::worker::Workers;
use crate::{Advice, Error, Options, chunk, forks, range_calls, registry};
pub use holding::Holding;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A range of addresses. Each block of the range can be managed, or returned to the program.
///
/// An arena is for a caller that implements the mappings of a program. Ranges consist of addresses,
/// and begin and end at block boundaries. An arena installs no signal handler and starts no thread
/// except by [`defer_stores`](Self::defer_stores). The caller must pass each fault on an absent
/// block to [`answer_fault`](crate::answer_fault), which also evicts blocks to make room.
/// `answer_fault` uses the heap, so a thread must not fault on an arena while it runs code of the
/// process's allocator.
#[derive(Debug)]
pub struct Arena {
    holding: Holding,
}

impl Arena {
    /// Creates an arena of `bytes` bytes at `address`. If `address` is 0, the kernel chooses the
    /// address. All blocks of the arena are free. `address` and `bytes` are multiples of 2 MiB.
    ///
    /// # Errors
    /// The errors of [`Region::new`](crate::Region::new); [`Error::System`] if another mapping is
    /// in the range.
    pub fn new(address: usize, bytes: usize, options: &Options) -> Result<Self, Error> {
        Self::with_room(address, bytes, 0, options, None)
    }

    /// Creates an arena to which windows can be added (see [`add_window`](Self::add_window)). A gap
    /// of at least one chunk precedes each added window. All gaps and added windows together occupy
    /// at most `room` bytes. `room` is a multiple of 2 MiB. If `shared` is given, the limit applies
    /// to the memory of several processes together. The anonymous memory of these processes outside
    /// of arenas also counts towards the limit, if /proc shows its size.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn with_room(
        address: usize,
        bytes: usize,
        room: usize,
        options: &Options,
        shared: Option<Arc<dyn SharedLimit>>,
    ) -> Result<Self, Error> {
        let block = options.sizes()?.block;
        if bytes == 0 || !(address | bytes | room).is_multiple_of(CHUNK_BYTES) {
            return Err(Error::Size { bytes, block });
        }
        if !options.backend.is_signal() {
            return Err(Error::Backend);
        }
        let memory = match address {
            0 => Managed::map(bytes, CHUNK_BYTES),
            _ => Managed::map_at(address, bytes),
        };
        let memory = memory.map_err(Error::system("address space for an arena"))?;
        forks::register();
        let memory = memory.with_room(room);
        let mut pager = Pager::new(memory, Contents::Vacant, options)?;
        shared.into_iter().for_each(|shared| pager.limit.share(shared));
        let pager = Arc::new(pager);
        chunk::begin(&pager, Contents::Vacant);
        // SAFETY: `drop` removes the pager from the registry before the arena drops it.
        unsafe { registry::add(&pager, pager.memory.addresses(), || Ok(()))? };
        Ok(Arena { holding: Holding { calls: Calls { pager, worker: Workers::default() } } })
    }

    /// Returns the numbers of the blocks in a range of addresses.
    fn blocks(&self, range: &Range<usize>) -> Result<Range<usize>, Error> {
        let is_within = |window: &Range<usize>| {
            window.start <= range.start && range.start <= range.end && range.end <= window.end
        };
        let edges = (range.start | range.end) & (self.block() - 1);
        let first_block = || {
            let window = self.windows().find(is_within).filter(|_| edges == 0)?;
            let offset = self.calls.pager.memory.offset_of(window.start)?;
            Some((offset + (range.start - window.start)) / self.block())
        };
        let Range { start, end } = *range;
        let bytes = self.addresses().len();
        let first = first_block().ok_or(Error::Range { start, end, bytes })?;
        Ok(first..first + range.len() / self.block())
    }

    /// Changes the use of the blocks in a range. A block that becomes free loses its contents. A
    /// free block that becomes managed or plain reads as zeros. Any other block keeps its contents.
    /// Managed or free blocks that become plain are readable and writable.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Locked`] if a block that should become plain has 65,535 pins.
    /// After [`Error::Locked`], the blocks before that block are plain.
    ///
    /// # Safety
    /// The program has requested exactly this change of the range. Plain memory that becomes
    /// managed is private, anonymous, readable and writable.
    pub unsafe fn set_use(&self, range: Range<usize>, to: Use) -> Result<(), Error> {
        let Range { start: mut next, end } = self.blocks(&range)?;
        loop {
            next = self.calls.inside(|pager| uses::set_use_of_closed(pager, next..end, to))?;
            if next == end {
                return Ok(());
            }
            let part = next..end.min(chunk::blocks_of(&self.calls.pager, next).end);
            next = part.end;
            self.calls.with_buffer(|pager, buf| uses::set_use(pager, part, to, buf))??;
        }
    }

    /// Replaces the contents of the managed blocks in a range with zeros. After the call, only the
    /// pinned blocks of the range use memory.
    ///
    /// # Errors
    /// [`Error::Range`]
    ///
    /// # Safety
    /// The program has requested that the range read as zeros.
    pub unsafe fn dont_need(&self, range: Range<usize>) -> Result<(), Error> {
        let blocks = self.blocks(&range)?;
        self.calls.in_steps(blocks, |part| self.calls.inside(|pager| uses::zero_all(pager, part)))
    }

    /// Fills the managed blocks of a range, and keeps them resident until [`unpin`](Self::unpin).
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Locked`] if a block has 65,535 pins. After an error, no block of
    /// the range is pinned.
    pub fn pin(&self, range: Range<usize>) -> Result<(), Error> {
        let blocks = self.blocks(&range)?;
        // If all blocks are resident, they are pinned without the buffer of a context.
        if range_calls::try_pin(&self.calls.pager, blocks.clone()) {
            return Ok(());
        }
        self.calls.pin(blocks)
    }

    /// Undoes one call of [`pin`](Self::pin) with the same range.
    ///
    /// # Errors
    /// [`Error::Range`]
    pub fn unpin(&self, range: Range<usize>) -> Result<(), Error> {
        range_calls::unpin(&self.calls.pager, self.blocks(&range)?);
        Ok(())
    }

    /// Applies advice about the future use of a range.
    ///
    /// # Errors
    /// [`Error::Range`]
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<(), Error> {
        self.calls.advise(self.blocks(&range)?, advice)
    }

    /// Returns the words of all blocks, in the format of [`WORD_LAYOUT`](crate::WORD_LAYOUT).
    pub fn words(&self) -> &[AtomicU32] {
        let words = &self.calls.pager.words[0..self.calls.pager.words.len()];
        // SAFETY: `BlockWord` is `repr(transparent)` over an `AtomicU32`.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
    }

    /// Returns the size in bytes of the largest window that can be added, or 0 if no window can be
    /// added.
    pub fn window_room(&self) -> usize {
        let pager = &self.calls.pager;
        pager.memory.room(self.window_gap()) / self.block() * self.block()
    }

    /// Returns the size in bytes of the gap before a window. The gap is at least a chunk and at
    /// least a clock window, so that no clock window contains blocks of two windows of the arena
    /// (zm-W2).
    fn window_gap(&self) -> usize {
        self.calls.pager.mappings.chunk_bytes.max(CLOCK_WINDOW * self.block())
    }

    /// Adds a window, which exists as long as the arena. All blocks of the window are free. If
    /// `is_executable` is true, managed blocks of the window are executable.
    ///
    /// # Errors
    /// The error is [`Error::Size`] if the window begins or ends within a block. The error is
    /// [`Error::Overlap`] if a region or an arena contains some of the addresses. The error is
    /// [`Error::Regions`] if the process has the maximum number of windows. If the window is larger
    /// than [`window_room`](Self::window_room), or the kernel refuses to map the window, the error
    /// is [`Error::System`].
    ///
    /// # Safety
    /// The mappings in the range belong to the caller, and no thread uses them. This function
    /// replaces these mappings.
    pub unsafe fn add_window(&self, range: Range<usize>, is_executable: bool) -> Result<(), Error> {
        let (pager, block) = (&self.calls.pager, self.block());
        let (bytes, is_cut) = (range.len(), !(range.start | range.end).is_multiple_of(block));
        if range.is_empty() || is_cut {
            return Err(Error::Size { bytes, block });
        }
        // SAFETY: the caller permits the mappings to be replaced; `drop` removes the pager from the
        // registry. `registry::add` calls the closure on one thread at a time.
        unsafe {
            registry::add(pager, range.clone(), || {
                let added = pager.memory.add_window(range, self.window_gap(), is_executable);
                added.map_err(Error::system("address space for a window"))
            })
        }
    }
}

impl Deref for Arena {
    type Target = Holding;

    fn deref(&self) -> &Holding {
        &self.holding
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.rest();
        registry::remove(&self.calls.pager);
    }
}
