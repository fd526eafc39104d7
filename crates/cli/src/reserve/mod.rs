//! The process's allocator, with a reserve for small allocations that the system refuses.
//!
//! ```text
//!   reserve  | bit per unit of 64 bytes | unit | unit | ... |   one mapping, made at the start
//! ```
//!
//! In safe Rust, a failed allocation ends the process, except in functions such as `try_reserve`.
//! So the reserve serves small allocations that the system refuses. While more than 1/SHARE of the
//! reserve is in use, the server admits no new work (`Reserved::is_short`). Code must request large
//! allocations by functions such as `try_reserve`.
//!
//! # Safety
//! The mapping of the reserve is created once and never unmapped. Its address and length are
//! published after its bitmap is ready, so each live allocation inside the mapping consists of
//! taken units. One lock protects the bitmap, so two live allocations never share a unit. If an
//! allocation's alignment exceeds that of a unit, the allocation begins at a multiple of several
//! units.
#![allow(unsafe_code)]

mod policy;
#[cfg(test)]
mod tests;
mod units;

pub use policy::SHARE;
use policy::{ALIGN_MAX, LARGEST, UNIT};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::alloc::{GlobalAlloc, Layout};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{
    AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Units;

#[derive(Debug)]
pub struct Reserved<A> {
    system: A,
    reserve: Reserve,
}

#[derive(Debug)]
struct Reserve {
    /// The address of the units, and their total size in bytes, which is 0 until the reserve
    /// exists.
    start: AtomicPtr<u8>,
    bytes: AtomicUsize,
    units: Mutex<Units<'static>>,
    /// The number of taken units, for readers without the lock.
    taken: AtomicUsize,
}

impl<A> Reserved<A> {
    /// Returns an allocator that takes memory from `system`, without a reserve.
    pub const fn new(system: A) -> Self {
        let reserve = Reserve {
            start: AtomicPtr::new(null_mut()),
            bytes: AtomicUsize::new(0),
            units: Mutex::new(Units::none()),
            taken: AtomicUsize::new(0),
        };
        Reserved { system, reserve }
    }

    /// Creates a reserve of at least `bytes` bytes if none exists. The pages of the reserve use no
    /// memory before their first touch.
    ///
    /// # Errors
    /// Fails if the system refuses the address space.
    pub fn keep(&self, bytes: usize) -> io::Result<()> {
        self.reserve.make(bytes)
    }

    /// Returns true if more than 1/SHARE of the reserve is in use. The threshold is not 0, because
    /// a part can stay in use long after memory is available again.
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
        // SAFETY: these are the first `map` bytes of the mapping, which is aligned to pages and is
        // never unmapped. These bytes hold `words` words of zeros, and nothing else refers to them.
        let bits = unsafe { std::slice::from_raw_parts_mut(mapped.cast::<u64>(), words) };
        *units = Units::new(bits);
        // SAFETY: the offset `map` lies in a mapping of `map + bytes` bytes.
        self.start.store(unsafe { mapped.cast::<u8>().add(map) }, Relaxed);
        self.bytes.store(bytes, Release);
        Ok(())
    }

    /// Locks the bitmap. Code that holds the lock allocates nothing and does not panic.
    fn units(&self) -> MutexGuard<'_, Units<'static>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the unit at `at`, or `None` if `at` lies outside the reserve.
    fn unit_of(&self, at: *mut u8) -> Option<usize> {
        let bytes = self.bytes.load(Acquire);
        let offset = at.addr().wrapping_sub(self.start.load(Relaxed).addr());
        (offset < bytes).then_some(offset / UNIT)
    }

    /// Returns memory for `layout`, or null if the reserve lacks space.
    fn take(&self, layout: Layout) -> *mut u8 {
        if self.bytes.load(Acquire) == 0 || layout.size() > LARGEST || layout.align() > ALIGN_MAX {
            return null_mut();
        }
        let mut units = self.units();
        let taken = units.take(units_for(layout.size()), layout.align().div_ceil(UNIT));
        self.taken.store(units.taken, Relaxed);
        match taken {
            // SAFETY: the units fill `bytes` bytes from `start`, and `unit` is one of them.
            Some(unit) => unsafe { self.start.load(Relaxed).add(unit * UNIT) },
            None => null_mut(),
        }
    }

    /// Frees the units of `bytes` bytes from `unit`.
    ///
    /// # Safety
    /// `take` returned `unit` for `bytes` bytes, or `shrink` left `bytes` bytes at `unit`. These
    /// bytes are no longer used, because the next `take` can return them.
    unsafe fn give(&self, unit: usize, bytes: usize) {
        let mut units = self.units();
        units.give(unit..unit + units_for(bytes));
        self.taken.store(units.taken, Relaxed);
    }

    /// Shrinks the allocation at `unit` from `old` to `new` bytes in place. Returns false if `new`
    /// bytes need more units than `old` bytes.
    ///
    /// # Safety
    /// The requirements of `give` apply to the `old` bytes at `unit`, except that the caller still
    /// uses the first `new` bytes.
    unsafe fn shrink(&self, unit: usize, old: usize, new: usize) -> bool {
        let (old, new) = (units_for(old), units_for(new));
        if new < old {
            let mut units = self.units();
            units.give(unit + new..unit + old);
            self.taken.store(units.taken, Relaxed);
        }
        new <= old
    }

    #[cfg(test)]
    fn check(&self) {
        let units = self.units();
        units.check();
        assert_eq!(self.taken.load(Relaxed), units.taken);
    }
}

fn units_for(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).max(1)
}

// SAFETY: each function returns memory of the inner allocator for the same layout, or units of the
// reserve. The units are aligned and long enough, and `take` returns each unit to one caller at a
// time. The address of freed memory shows whether the memory came from the reserve. These functions
// do not unwind. A debug assertion can unwind, but it fails only if the caller breaks its promises.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Reserved<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about `layout` are those that the inner allocator requires.
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
            // SAFETY: `take` returned `layout.size()` bytes to this call alone.
            unsafe { given.write_bytes(0, layout.size()) };
        }
        given
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        match self.reserve.unit_of(at) {
            // SAFETY: the address lies in the reserve, so `take` returned it. The caller promises
            // that the memory has this `layout`, which `realloc` maintains, and that the memory is
            // no longer used.
            Some(unit) => unsafe { self.reserve.give(unit, layout.size()) },
            // SAFETY: the address does not lie in the reserve, so the inner allocator returned it.
            // The caller meets the other requirements of that allocator.
            None => unsafe { self.system.dealloc(at, layout) },
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let unit = self.reserve.unit_of(at);
        // SAFETY: the caller promises that `new_size` is not 0 and does not overflow if it is
        // rounded up to the alignment.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let given = match unit {
            // SAFETY: as in `alloc`. An allocation in the reserve moves to the system's memory as
            // soon as possible.
            Some(_) => unsafe { self.system.alloc(new) },
            // SAFETY: as in `dealloc`.
            None => unsafe { self.system.realloc(at, layout, new_size) },
        };
        if unit.is_none() && !given.is_null() {
            return given;
        }
        if let Some(unit) = unit
            && given.is_null()
            // SAFETY: the address lies in the reserve, so `take` returned it for `layout`, as the
            // caller promises. From now on the caller uses only the first `new_size` bytes.
            && unsafe { self.reserve.shrink(unit, layout.size(), new_size) }
        {
            return at;
        }
        let Some(to) = NonNull::new(given).or_else(|| NonNull::new(self.reserve.take(new))) else {
            return null_mut();
        };
        // SAFETY: both allocations are live, do not overlap, and are at least as long as the
        // smaller of the two sizes. The old allocation is freed, as the caller allows.
        unsafe {
            to.as_ptr().copy_from_nonoverlapping(at, layout.size().min(new_size));
            self.dealloc(at, layout);
        }
        to.as_ptr()
    }
}
