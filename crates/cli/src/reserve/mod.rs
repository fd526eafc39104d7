//! The process's memory, with a reserve: what the system refuses comes from there, if it is not
//! large.
//!
//! ```text
//!   reserve  | bit per unit of 64 bytes | unit | unit | ... |   one mapping, made at the start
//! ```
//!
//! Safe Rust ends the process where memory is refused that it does not ask for by `try_reserve`. So
//! what is small never is refused, for as long as there is a reserve; and while more than a share
//! of it is in use, no new work is let in (`Reserved::is_short`). What is large has to be asked for
//! in a way that can fail.
//!
//! # Safety
//! The mapping is made once and never goes. Its address and length are published after its bits are
//! ready, so an address between them was given out from units, and which of those are taken is
//! known under one lock: two live allocations never share a unit. Units are as long as the
//! strongest alignment that is asked for by multiples of them.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;
mod units;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::alloc::{GlobalAlloc, Layout};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{
    AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Units;

/// Bytes of a unit.
const UNIT: usize = 64;

/// The strongest alignment that there is: what the mapping's own is, at least.
const ALIGN_MAX: usize = 4096;

/// The largest allocation that comes from the reserve.
pub const LARGEST: usize = 64 << 10;

/// The share of the reserve, one in so many, beyond which memory is short.
pub const SHARE: usize = 4;

/// An allocator with a reserve behind it.
#[derive(Debug)]
pub struct Reserved<A> {
    system: A,
    reserve: Reserve,
}

#[derive(Debug)]
struct Reserve {
    /// Where the units begin, and their bytes; 0 until there are any.
    start: AtomicPtr<u8>,
    bytes: AtomicUsize,
    units: Mutex<Units<'static>>,
    /// Units that are taken, to be looked at without the lock.
    taken: AtomicUsize,
}

impl<A> Reserved<A> {
    /// Returns an allocator that takes memory from `system`, and has no reserve yet.
    pub const fn new(system: A) -> Self {
        let reserve = Reserve {
            start: AtomicPtr::new(null_mut()),
            bytes: AtomicUsize::new(0),
            units: Mutex::new(Units::none()),
            taken: AtomicUsize::new(0),
        };
        Reserved { system, reserve }
    }

    /// Makes the reserve, of `bytes` at least, unless there is one. Its pages cost no memory until
    /// they are touched.
    ///
    /// # Errors
    /// The system refuses the address space.
    pub fn keep(&self, bytes: usize) -> io::Result<()> {
        self.reserve.make(bytes)
    }

    /// Returns whether memory was refused, and of what was given instead more than a share is in
    /// use. Some of it may stay in use for long though memory is back: so less is no reason to
    /// refuse work.
    pub fn is_short(&self) -> bool {
        self.reserve.taken.load(Relaxed) * UNIT > self.reserve.bytes.load(Relaxed) / SHARE
    }
}

impl Reserve {
    fn make(&self, bytes: usize) -> io::Result<()> {
        let words = bytes.div_ceil(UNIT * u64::BITS as usize);
        let map = (words * size_of::<u64>()).next_multiple_of(ALIGN_MAX);
        let bytes = words * u64::BITS as usize * UNIT;
        let mut units = self.units();
        if self.bytes.load(Relaxed) > 0 {
            return Ok(());
        }
        let (flags, access) = (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a null hint without MAP_FIXED never replaces an existing mapping.
        let mapped = unsafe { mmap_anonymous(null_mut(), map + bytes, access, flags) }?;
        // SAFETY: the first `map` bytes of the mapping, which is aligned to pages and stays for
        // good; they hold `words` words, zeros, and nobody else knows of them.
        let bits = unsafe { std::slice::from_raw_parts_mut(mapped.cast::<u64>(), words) };
        *units = Units::new(bits);
        // SAFETY: `map` bytes on in a mapping of `map + bytes`.
        self.start.store(unsafe { mapped.cast::<u8>().add(map) }, Relaxed);
        self.bytes.store(bytes, Release);
        Ok(())
    }

    /// The lock, over which nothing is allocated and nothing panics.
    fn units(&self) -> MutexGuard<'_, Units<'static>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which unit an address is of, if it lies in the reserve.
    fn unit_of(&self, at: *mut u8) -> Option<usize> {
        let bytes = self.bytes.load(Acquire);
        let offset = at.addr().wrapping_sub(self.start.load(Relaxed).addr());
        (offset < bytes).then_some(offset / UNIT)
    }

    /// Memory for `layout`, null where there is none.
    fn take(&self, layout: Layout) -> *mut u8 {
        if self.bytes.load(Acquire) == 0 || layout.size() > LARGEST || layout.align() > ALIGN_MAX {
            return null_mut();
        }
        let mut units = self.units();
        let taken = units.take(units_for(layout.size()), layout.align().div_ceil(UNIT));
        self.taken.store(units.taken(), Relaxed);
        match taken {
            // SAFETY: the unit is one of those that fill the `bytes` behind `start`.
            Some(unit) => unsafe { self.start.load(Relaxed).add(unit * UNIT) },
            None => null_mut(),
        }
    }

    /// Gives back `bytes` from `unit` on.
    ///
    /// # Safety
    /// `take` gave out `unit` for as many bytes, or `shrink` left as many, and nobody uses them any
    /// more: the next `take` may give them out.
    unsafe fn give(&self, unit: usize, bytes: usize) {
        let mut units = self.units();
        units.give(unit..unit + units_for(bytes));
        self.taken.store(units.taken(), Relaxed);
    }

    /// Makes `old` bytes at `unit` `new` ones, if it can be done where they lie.
    ///
    /// # Safety
    /// As `give` for the `old` bytes, of which the first `new` stay in use.
    unsafe fn shrink(&self, unit: usize, old: usize, new: usize) -> bool {
        let (old, new) = (units_for(old), units_for(new));
        if new < old {
            let mut units = self.units();
            units.give(unit + new..unit + old);
            self.taken.store(units.taken(), Relaxed);
        }
        new <= old
    }

    /// Asserts what is said of its units.
    #[cfg(test)]
    fn check(&self) {
        let units = self.units();
        units.check();
        assert_eq!(self.taken.load(Relaxed), units.taken());
    }
}

/// Units that so many bytes take.
fn units_for(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).max(1)
}

// SAFETY: each function gives what the inner allocator gives for the same layout, or units of the
// reserve, which are aligned and long enough, and of which `take` gives each to one at a time; and
// what comes back is told apart by its address. Nothing here unwinds but an assertion of debug
// builds, which is a fault of the caller's.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Reserved<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about `layout` are those that are asked for.
        let given = unsafe { self.system.alloc(layout) };
        if given.is_null() { self.reserve.take(layout) } else { given }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let given = unsafe { self.system.alloc_zeroed(layout) };
        if !given.is_null() {
            return given;
        }
        let given = self.reserve.take(layout);
        if !given.is_null() {
            // SAFETY: `take` gave `layout.size()` bytes, to this call alone.
            unsafe { given.write_bytes(0, layout.size()) };
        }
        given
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        match self.reserve.unit_of(at) {
            // SAFETY: it lies in the reserve, so `take` gave it; the caller promises that it did
            // for `layout`, which `realloc` keeps to, and that it is not used any more.
            Some(unit) => unsafe { self.reserve.give(unit, layout.size()) },
            // SAFETY: it does not lie in the reserve, so the inner allocator gave it; the rest is
            // the caller's promise.
            None => unsafe { self.system.dealloc(at, layout) },
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let unit = self.reserve.unit_of(at);
        // SAFETY: the caller promises that `new_size` is not 0 and, rounded up to the alignment, no
        // overflow.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let given = match unit {
            // SAFETY: as in `alloc`: so that the reserve is left as soon as it can be.
            Some(_) => unsafe { self.system.alloc(new) },
            // SAFETY: as in `dealloc`.
            None => unsafe { self.system.realloc(at, layout, new_size) },
        };
        if unit.is_none() && !given.is_null() {
            return given;
        }
        if let Some(unit) = unit
            && given.is_null()
            // SAFETY: it lies in the reserve, so `take` gave it, for `layout` as the caller
            // promises, which uses `new_size` bytes of it from now on.
            && unsafe { self.reserve.shrink(unit, layout.size(), new_size) }
        {
            return at;
        }
        let Some(to) = NonNull::new(given).or_else(|| NonNull::new(self.reserve.take(new))) else {
            return null_mut();
        };
        // SAFETY: both are live, apart, and as long as the shorter of the two sizes; then the old
        // one goes, as the caller says it may.
        unsafe {
            to.as_ptr().copy_from_nonoverlapping(at, layout.size().min(new_size));
            self.dealloc(at, layout);
        }
        to.as_ptr()
    }
}
