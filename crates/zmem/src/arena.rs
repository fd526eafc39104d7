//! A range of addresses, some of whose blocks are managed; the other blocks belong to the program.
//!
//! # Safety
//! The arena's range is mapped as long as the arena exists. Only the caller of an unsafe function
//! uses the blocks in the passed range, and no reference in this crate points to them.
#![allow(unsafe_code)]

mod room;
mod windows;

use crate::calls::Calls;
use crate::deferred::StartThread;
use crate::limit::SharedLimit;
use crate::memory::Managed;
use crate::pager::{Contents, Pager};
use crate::state::{BlockWord, State};
use crate::stats::Stats;
use crate::uses::{self, Use};
use crate::worker::Workers;
use crate::{
    Advice, Error, Options, chunk, compressor_thread, forks, policy, range_calls, registry,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A range of addresses. Each of its blocks can be managed, and returned to the program,
/// separately.
///
/// An arena is for a caller that manages a program's mappings. All ranges are addresses, and begin
/// and end at block boundaries. An arena installs no signal handler and starts no thread except by
/// [`defer_stores`](Self::defer_stores). The caller must pass each fault on an absent block to
/// [`answer_fault`](crate::answer_fault), which also evicts blocks to make room. That function uses
/// the heap, so the process needs an allocator that no fault on an arena can interrupt.
#[derive(Debug)]
pub struct Arena {
    calls: Calls,
}

impl Arena {
    /// Creates an arena of `bytes` bytes at `address`. If `address` is 0, the kernel chooses the
    /// address. All of its blocks are free. `address` and `bytes` are multiples of 2 MiB.
    ///
    /// # Errors
    /// The errors of a new region; [`Error::System`] if another mapping is in the range.
    pub fn new(address: usize, bytes: usize, options: &Options) -> Result<Self, Error> {
        Self::with_room(address, bytes, 0, options, None)
    }

    /// Creates an arena to which windows can be added (see [`add_window`](Self::add_window)). A gap
    /// of at least one chunk precedes each window. Windows and gaps have up to `room` bytes in all.
    /// `room` is a multiple of 2 MiB. With `shared`, the limit applies to all memory of several
    /// processes, including their other anonymous memory if /proc shows its size.
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
        let chunk = policy::CHUNK_BYTES;
        if bytes == 0 || !(address | bytes | room).is_multiple_of(chunk) {
            return Err(Error::Size { bytes, block });
        }
        if !options.backend.is_signal() {
            return Err(Error::Backend);
        }
        let memory = match address {
            0 => Managed::map(bytes, chunk),
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
        Ok(Arena { calls: Calls { pager, worker: Workers::none() } })
    }

    /// Returns the addresses of the first window, with which the arena was created.
    pub fn addresses(&self) -> Range<usize> {
        self.calls.pager.memory.addresses()
    }

    /// Returns the size of a block in bytes.
    pub fn block(&self) -> usize {
        self.calls.pager.sizes.block
    }

    /// Returns the addresses of each window, in the order in which the windows were added.
    pub fn windows(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.calls.pager.memory.windows()
    }

    /// Returns the blocks of a range of addresses.
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

    /// Changes the use of a range. A block that becomes free loses its contents, a block that was
    /// free reads as zeros, and any other block keeps its contents. Blocks that were managed or
    /// free are readable and writable when they become plain.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Locked`] if a block that should become plain has 65,535 pins. In
    /// that case, the blocks before the pinned block are already plain.
    ///
    /// # Safety
    /// The program has requested exactly this change of the range. Plain memory that becomes
    /// managed is private, anonymous, readable and writable.
    pub unsafe fn set_use(&self, range: Range<usize>, to: Use) -> Result<(), Error> {
        let blocks = self.blocks(&range)?;
        self.calls.by_chunks(blocks, |part| {
            self.calls.with_context(|pager, context| uses::set_use(pager, part, to, context))?
        })
    }

    /// Replaces the contents of the managed blocks in a range with zeros. Only pinned blocks then
    /// use memory.
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
    /// [`Error::Range`]; [`Error::Locked`] if a block has 65,535 pins. In that case, no block is
    /// pinned.
    pub fn pin(&self, range: Range<usize>) -> Result<(), Error> {
        let blocks = self.blocks(&range)?;
        // No context is needed if all blocks are resident.
        if range_calls::try_pin(&self.calls.pager, blocks.clone()) {
            return Ok(());
        }
        self.calls.pin(blocks)
    }

    /// If all of a range is resident and no wait is needed, pins the range as [`pin`](Self::pin)
    /// does. Otherwise pins no block. Returns whether the range was pinned.
    pub fn try_pin(&self, range: Range<usize>) -> bool {
        self.blocks(&range).is_ok_and(|blocks| range_calls::try_pin(&self.calls.pager, blocks))
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

    /// Evicts the coldest blocks: `bytes` bytes, rounded up to whole blocks, or fewer if no more
    /// can be evicted. Returns the number of evicted bytes.
    pub fn reclaim(&self, bytes: usize) -> usize {
        self.calls.reclaim(bytes)
    }

    /// Returns whether all blocks of a range are resident or plain. Other threads may evict these
    /// blocks at any time.
    pub fn is_resident(&self, range: Range<usize>) -> bool {
        let is_there = |words: &[BlockWord]| {
            words.iter().all(|word| matches!(word.load().state(), State::Resident | State::Plain))
        };
        self.blocks(&range).is_ok_and(|blocks| is_there(&self.calls.pager.words[blocks]))
    }

    /// Returns the words of all blocks, in the format of [`WORD_LAYOUT`](crate::WORD_LAYOUT).
    pub fn words(&self) -> &[AtomicU32] {
        let words = &self.calls.pager.words[0..self.calls.pager.words.len()];
        // SAFETY: `BlockWord` is `repr(transparent)` over an `AtomicU32`.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
    }

    /// Lets a separate thread store evicted blocks, so that the evicting thread does not wait for
    /// compression. `starter` starts that thread when there is a block to store; the thread ends
    /// after some time without work.
    pub fn defer_stores(&self, starter: &'static dyn StartThread) {
        compressor_thread::set_starter(&self.calls.pager, starter);
    }

    /// Ends the compressor thread until blocks are evicted again, and waits until that thread has
    /// exited. The calling thread holds no lock of the arena and is not in a fault.
    pub fn rest(&self) {
        self.calls.pager.compressor.rest();
    }

    /// Ends the compressor thread. The arena starts no such thread again.
    pub fn end_thread(&self) {
        self.calls.pager.compressor.end();
    }

    /// Returns the arena's statistics.
    pub fn stats(&self) -> Stats {
        self.calls.stats()
    }

    /// Asserts that the counters equal the sums over all blocks. No other thread may use the arena
    /// during the call.
    pub fn check(&self) {
        let _no_one_here = self.calls.inside(range_calls::check);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.rest();
        registry::remove(&self.calls.pager);
    }
}
