//! An arena: a range of addresses of which some blocks are managed as a region's are, and others
//! the program's own.
//!
//! # Safety
//! The arena's range is mapped as long as it lives. Whoever calls its unsafe functions has sole
//! charge of the blocks that it names; no reference of this crate's points to them.
#![allow(unsafe_code)]

mod in_tree;
mod windows;

use crate::aside::StartThread;
use crate::calls::Calls;
use crate::memory::Managed;
use crate::pager::{Contents, Pager};
use crate::state::{BlockWord, State};
use crate::stats::Stats;
use crate::uses::Use;
use crate::worker::Workers;
use crate::{Advice, Error, Options, forks, mappings, registry};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A range of addresses whose blocks can be managed, and given back, one by one.
///
/// It is for who serves a program's mappings: all ranges are addresses, and begin and end at
/// blocks. No handler of signals is installed, and no thread started but by
/// [`store_aside`](Self::store_aside): a touch of what is absent goes to
/// [`answer_fault`](crate::answer_fault), which makes room itself. For that it uses the heap: so
/// the allocator is one that no touch of an arena can interrupt.
#[derive(Debug)]
pub struct Arena {
    calls: Calls,
}

impl Arena {
    /// Makes an arena of `bytes` bytes from `address` on, or where the system likes if that is 0.
    /// All of it is free. `address` and `bytes` are multiples of 2 MiB.
    ///
    /// # Errors
    /// Those of a region; [`Error::System`]: something is mapped there.
    pub fn new(address: usize, bytes: usize, options: &Options) -> Result<Self, Error> {
        Self::with_room(address, bytes, 0, options)
    }

    /// Makes an arena to which windows of `room` bytes in all can be added, with a chunk before
    /// each: see [`add_window`](Self::add_window). `room` is a multiple of 2 MiB.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_room(
        address: usize,
        bytes: usize,
        room: usize,
        options: &Options,
    ) -> Result<Self, Error> {
        let block = options.blocks()?.unit;
        let chunk = mappings::CHUNK_BYTES;
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
        let pager = Arc::new(Pager::new(memory, Contents::Vacant, options)?);
        // SAFETY: `drop` removes the pager from the registry before the arena drops it.
        unsafe { registry::add(&pager, pager.memory.addresses(), || Ok(()))? };
        Ok(Arena { calls: Calls { pager, worker: Workers::none() } })
    }

    /// Returns the addresses that it was made with, which are its first window.
    pub fn addresses(&self) -> Range<usize> {
        self.calls.pager.memory.addresses()
    }

    /// Returns the bytes of a block.
    pub fn block(&self) -> usize {
        self.calls.pager.blocks.unit
    }

    /// Returns the blocks of a range of addresses.
    fn units(&self, range: &Range<usize>) -> Result<Range<usize>, Error> {
        let is_within = |window: &Range<usize>| {
            window.start <= range.start && range.start <= range.end && range.end <= window.end
        };
        let edges = (range.start | range.end) & (self.block() - 1);
        let first_unit = || {
            let window = self.windows().find(is_within).filter(|_| edges == 0)?;
            let offset = self.calls.pager.memory.offset_of(window.start)?;
            Some((offset + (range.start - window.start)) / self.block())
        };
        let Range { start, end } = *range;
        let bytes = self.addresses().len();
        let first = first_unit().ok_or(Error::Range { start, end, bytes })?;
        Ok(first..first + range.len() / self.block())
    }

    /// Changes what a range is for. Where it becomes free, its contents go; where it was free, it
    /// is zeros; else it keeps them. What was managed, and free ranges that become plain, are
    /// readable and writable.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Locked`]: a block that becomes plain has 65,535 pins, and those
    /// before it have become so.
    ///
    /// # Safety
    /// The program expects just this of the range. What is plain and becomes managed is private,
    /// anonymous, readable and writable.
    pub unsafe fn set_use(&self, range: Range<usize>, to: Use) -> Result<(), Error> {
        let units = self.units(&range)?;
        self.calls.by_chunks(units, |part| {
            self.calls.with_seat(|pager, seat| pager.set_use(part, to, seat))?
        })
    }

    /// Makes what is managed of a range zeros, which take no memory but where they are pinned.
    ///
    /// # Errors
    /// [`Error::Range`]
    ///
    /// # Safety
    /// The program expects zeros.
    pub unsafe fn dont_need(&self, range: Range<usize>) -> Result<(), Error> {
        let units = self.units(&range)?;
        self.calls.in_steps(units, |part| self.calls.inside(|pager| pager.zero_all(part)))
    }

    /// Brings what is managed of a range back, and keeps it resident until [`unpin`](Self::unpin).
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Locked`]: a block has 65,535 pins. Nothing is pinned then.
    pub fn pin(&self, range: Range<usize>) -> Result<(), Error> {
        let units = self.units(&range)?;
        // What is all there needs no seat.
        if self.calls.pager.try_pin(units.clone()) {
            return Ok(());
        }
        let mut pinned = units.start..units.start;
        let done = self.calls.in_steps(units, |part| {
            self.calls.with_seat(|pager, seat| pager.pin(part.clone(), seat))??;
            pinned.end = part.end;
            Ok(())
        });
        if done.is_err() {
            self.calls.pager.unpin(pinned);
        }
        done
    }

    /// Does what [`pin`](Self::pin) does where all of a range is there and nothing is to be waited
    /// for; else nothing. Returns whether it did.
    pub fn try_pin(&self, range: Range<usize>) -> bool {
        self.units(&range).is_ok_and(|units| self.calls.pager.try_pin(units))
    }

    /// Ends what one call of [`pin`](Self::pin) with this range began.
    ///
    /// # Errors
    /// [`Error::Range`]
    pub fn unpin(&self, range: Range<usize>) -> Result<(), Error> {
        self.calls.pager.unpin(self.units(&range)?);
        Ok(())
    }

    /// Tells how a range will be used.
    ///
    /// # Errors
    /// [`Error::Range`]
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<(), Error> {
        self.calls.advise(self.units(&range)?, advice)
    }

    /// Evicts blocks of `bytes` bytes in all, rounded up to whole blocks, the coldest first.
    /// Returns how many bytes went: fewer where no more can go.
    pub fn reclaim(&self, bytes: usize) -> usize {
        self.calls.reclaim(bytes.div_ceil(self.block())) * self.block()
    }

    /// Returns whether a range is there, as far as it is managed. Other threads may have it go.
    pub fn is_resident(&self, range: Range<usize>) -> bool {
        let is_there = |words: &[BlockWord]| {
            words.iter().all(|word| matches!(word.load().state(), State::Resident | State::Plain))
        };
        self.units(&range).is_ok_and(|units| is_there(&self.calls.pager.words[units]))
    }

    /// Returns the words of all blocks, as [`WORD_LAYOUT`](crate::WORD_LAYOUT) describes them.
    pub fn words(&self) -> &[AtomicU32] {
        let words = &self.calls.pager.words[0..self.calls.pager.words.len()];
        // SAFETY: a block's word is an atomic integer, and nothing else.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
    }

    /// Has a thread store what is evicted, while the one that evicts goes on: `starter` starts one
    /// when there is something to store. It ends where nothing comes for a while.
    pub fn store_aside(&self, starter: &'static dyn StartThread) {
        self.calls.pager.store_aside(starter);
    }

    /// Ends that thread until blocks are evicted again, and waits until the system has it no more.
    /// No lock of the arena's is held, and this thread is not within a fault.
    pub fn rest(&self) {
        self.calls.pager.storer.rest();
    }

    /// Ends it, and starts none any more.
    pub fn end_thread(&self) {
        self.calls.pager.storer.end();
    }

    /// Returns what the arena holds and has done.
    pub fn stats(&self) -> Stats {
        self.calls.stats()
    }

    /// Asserts that counts equal the sums over all blocks. No other thread may use the arena
    /// meanwhile.
    pub fn check(&self) {
        let _no_one_here = self.calls.inside(|pager| pager.check());
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.rest();
        registry::remove(&self.calls.pager);
    }
}
