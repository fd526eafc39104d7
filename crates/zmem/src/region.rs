//! A region as its program sees it.
//!
//! # Safety
//! A region's memory is mapped, and each byte of it is a byte: where it is absent a touch brings it
//! back before it is seen (zm-S2). So slices of it are as slices of other memory.
#![allow(unsafe_code)]

use crate::gate::{self, GATE};
use crate::locked::Locked;
use crate::memory::Managed;
use crate::pager::{Contents, Pager};
use crate::seats::Seat;
use crate::stats::Stats;
use crate::worker::Workers;
use crate::{Advice, Error, Options, handler, registry, signals};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory whose cold blocks lie compressed, and come back when they are touched.
///
/// It is a slice of bytes, zeros at first. System calls on parts of it that are not resident fail
/// with EFAULT: [`lock`](Self::lock) what is given to the kernel.
///
/// ```
/// let options = zmem::Options { limit: Some(16 << 20), ..zmem::Options::default() };
/// let mut region = zmem::Region::new(64 << 20, options)?;
/// for (nth, byte) in region.iter_mut().step_by(512).enumerate() {
///     *byte = nth as u8;
/// }
/// assert!(region.stats().held <= 16 << 20);
/// assert!(region.iter().step_by(512).enumerate().all(|(nth, byte)| *byte == nth as u8));
/// # Ok::<(), zmem::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    pager: Arc<Pager>,
    bytes: usize,
    contents: Contents,
    worker: Workers,
}

impl Region {
    /// A region of `bytes` bytes, all zero.
    ///
    /// # Errors
    /// The options don't go together, or the system refuses what it takes.
    pub fn new(bytes: usize, options: Options) -> Result<Self, Error> {
        let block = options.blocks()?.unit;
        let whole = bytes.checked_next_multiple_of(block).filter(|&whole| whole > 0);
        let whole = whole.ok_or(Error::Size { bytes, block })?;
        let memory = Managed::map(whole, crate::mappings::CHUNK_BYTES);
        let memory = memory.map_err(Error::system("address space for a region"))?;
        Self::of(memory, bytes, Contents::Untouched, &options)
    }

    /// Has memory that is there already be managed, as long as the region lives: what of it is
    /// whole blocks. When the region is dropped, all of it is back.
    ///
    /// # Safety
    /// It is private anonymous memory, readable and writable. As long as the region lives, no one
    /// unmaps or moves it, changes its protection, or has the system drop pages of it; and the
    /// allocator of this process takes nothing of its own from it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub unsafe fn manage(
        start: NonNull<u8>,
        bytes: usize,
        options: Options,
    ) -> Result<Self, Error> {
        let block = options.blocks()?.unit;
        let skip = start.addr().get().next_multiple_of(block) - start.addr().get();
        let whole = bytes.saturating_sub(skip) / block * block;
        if whole == 0 {
            return Err(Error::Size { bytes, block });
        }
        // SAFETY: `skip` is not above `bytes`; the caller vouches for the rest.
        let memory = unsafe { Managed::of_program(start.add(skip), whole) };
        Self::of(memory, whole, Contents::InUse, &options)
    }

    fn of(
        memory: Managed,
        bytes: usize,
        contents: Contents,
        options: &Options,
    ) -> Result<Self, Error> {
        // Before the device: forks take what was registered first first.
        gate::register();
        handler::install();
        let pager = Arc::new(Pager::new(memory, contents, options)?);
        // SAFETY: `drop` removes it before the region lets go of it.
        unsafe { registry::add(&pager)? };
        let region = Region { pager, bytes, contents, worker: Workers::default() };
        region.inside(|_, _| ());
        Ok(region)
    }

    /// Does what takes a seat, and locks that a fault takes as well.
    fn inside<T>(&self, work: impl FnOnce(&Pager, &mut Seat<'_>) -> T) -> T {
        signals::without_signals(|| {
            let _inside = GATE.enter();
            self.worker.ensure(&self.pager);
            work(&self.pager, &mut self.pager.seats.take())
        })
    }

    /// The blocks that a range touches.
    fn units(&self, range: &Range<usize>) -> Result<Range<usize>, Error> {
        let Range { start, end } = *range;
        if start > end || end > self.bytes {
            return Err(Error::Range { start, end, bytes: self.bytes });
        }
        let unit = self.pager.blocks.unit;
        Ok(start / unit..end.div_ceil(unit).max(start / unit))
    }

    /// Evicts blocks that hold `bytes` bytes in all, the coldest first; how many bytes went.
    pub fn reclaim(&self, bytes: usize) -> usize {
        let unit = self.pager.blocks.unit;
        self.inside(|pager, seat| pager.reclaim(bytes.div_ceil(unit), seat)) * unit
    }

    /// Brings a range back.
    ///
    /// # Errors
    /// [`Error::Range`]
    pub fn prefetch(&self, range: Range<usize>) -> Result<(), Error> {
        let units = self.units(&range)?;
        self.inside(|pager, seat| pager.prefetch(units, seat));
        Ok(())
    }

    /// Says how a range will be used.
    ///
    /// # Errors
    /// [`Error::Range`]
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<(), Error> {
        let units = self.units(&range)?;
        self.inside(|pager, seat| match advice {
            Advice::Cold => pager.evict_range(units, seat),
            Advice::Hot => pager.heat(units, seat),
        });
        Ok(())
    }

    /// Makes a range zeros, which take no memory where they are whole blocks.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Locked`], and nothing was changed from there on.
    pub fn dont_need(&mut self, range: Range<usize>) -> Result<(), Error> {
        // SAFETY: nobody else has a reference to the bytes.
        unsafe { self.dont_need_shared(range) }
    }

    /// As [`dont_need`](Self::dont_need), while other threads use the region.
    ///
    /// # Safety
    /// No reference that lives says that bytes of the range stay as they are.
    ///
    /// # Errors
    /// As [`dont_need`](Self::dont_need).
    pub unsafe fn dont_need_shared(&self, range: Range<usize>) -> Result<(), Error> {
        self.units(&range)?;
        let unit = self.pager.blocks.unit;
        let first = range.start.next_multiple_of(unit).min(range.end);
        let last = (range.end / unit * unit).max(first);
        let zero = |part: Range<usize>| {
            // SAFETY: within the region, as `units` saw; the caller vouches that they may change.
            unsafe { self.as_ptr().add(part.start).write_bytes(0, part.len()) }
        };
        zero(range.start..first);
        zero(last..range.end);
        let whole = first / unit..last / unit;
        self.inside(|pager, _| pager.dont_need(whole))
    }

    /// Brings a range back, and keeps it until the lock is dropped: so it can be given to the
    /// kernel.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Locked`]: a block of it has 65,535 locks.
    pub fn lock(&self, range: Range<usize>) -> Result<Locked<'_>, Error> {
        let units = self.units(&range)?;
        self.inside(|pager, seat| pager.pin(units.clone(), seat))?;
        Ok(Locked { pager: &self.pager, units })
    }

    /// Sets or lifts the limit of what is held.
    pub fn set_limit(&self, limit: Option<u64>) {
        self.pager.limit.set(limit);
        self.inside(|_, _| ());
    }

    /// What the region holds and has done.
    pub fn stats(&self) -> Stats {
        signals::without_signals(|| {
            let _inside = GATE.enter();
            self.pager.stats()
        })
    }

    /// The first byte. What is behind the pointer may be read and written by any thread, as
    /// other memory.
    pub fn as_ptr(&self) -> *mut u8 {
        self.pager.memory.start().as_ptr()
    }

    /// Asserts that counts equal the sums over all blocks. Nothing else may use the region
    /// meanwhile.
    pub fn check(&self) {
        self.inside(|pager, _| pager.check());
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: see the head of this file; `bytes` is what is mapped, or less.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the region is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.bytes) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.worker.stop(&self.pager);
        if self.contents == Contents::InUse {
            self.pager.limit.set(None);
            signals::without_signals(|| {
                let _inside = GATE.enter();
                let all = 0..self.pager.units();
                self.pager.prefetch(all, &mut self.pager.seats.take());
            });
        }
        registry::remove(&self.pager);
    }
}
