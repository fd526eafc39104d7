//! The only module of this crate that calls the system's functions for memory.
//!
//! # Safety
//! A [`Mapping`] owns the address range that it mapped and nothing else; every call below affects
//! only that range. Memory of a private anonymous mapping reads as zero until written, so it can
//! contain any type for which zero bytes are valid.
//!
//! The kernel merges adjacent mappings of the same kind. If a process has its maximum number of
//! mappings, the kernel refuses to unmap a range inside a merged mapping. A range that the kernel
//! refuses to unmap is *stuck*. Its memory is released, and it is unmapped when a later mapping is
//! dropped. Until then, only one element of `STUCK` refers to the range.
#![allow(unsafe_code)]

use crate::budget::{Request, Supply};
use crate::fork::Mutex;
use crate::{Error, page_size, room};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of bytes in stuck ranges.
static STUCK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The stuck ranges. No thread waits for the lock, because a child of a fork can inherit it locked.
static STUCK: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// An owned range of private anonymous memory, unmapped on drop. Only touched pages use memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapping is an address range. Types that create references into it define its writers.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` provides only the base and the length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes at a multiple of `align`, without huge pages.
    pub(crate) fn reserve(
        len: usize,
        align: usize,
        supply: Option<&dyn Supply>,
    ) -> Result<Self, Error> {
        debug_assert!(len.is_multiple_of(page_size()) && align.is_power_of_two());
        let refused = Error::Mapping { bytes: len };
        if supply.is_some_and(|supply| !supply.grant(Request::Map { bytes: len })) {
            return Err(Error::Refused { pages: len / page_size() });
        }
        let slack = if align > page_size() { align } else { 0 };
        let whole = len.checked_add(slack).ok_or(refused)?;
        let asked = room::ask(whole).ok_or(refused)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint without MAP_FIXED never replaces an existing mapping.
        let whole = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, access, flags) };
        let whole = whole.ok().and_then(|whole| NonNull::new(whole.cast())).ok_or(refused)?;
        let skip = whole.addr().get().next_multiple_of(align) - whole.addr().get();
        debug_assert!(skip <= slack);
        // SAFETY: `skip <= slack`, so the result lies in the len + slack bytes just mapped.
        let base = unsafe { whole.add(skip) };
        drop(Mapping { base: whole, len: skip });
        // SAFETY: `skip + len <= len + slack`, so the result is at most the end of the range.
        drop(Mapping { base: unsafe { base.add(len) }, len: slack - skip });
        drop(asked);
        let mapping = Mapping { base, len };
        // SAFETY: the advice changes no byte. (Parts of huge pages could not be released.)
        unsafe { mapping.advise(Advice::LinuxNoHugepage) }?;
        Ok(mapping)
    }

    /// Unmaps the range. Returns the mapping unchanged if the system refuses.
    pub(crate) fn unmap(self) -> Result<(), Self> {
        let mapping = ManuallyDrop::new(self);
        // SAFETY: the range belongs to this mapping, which is consumed here.
        match unsafe { unmap(mapping.base, mapping.len) } {
            true => Ok(()),
            false => Err(ManuallyDrop::into_inner(mapping)),
        }
    }

    /// Excludes the range from core dumps.
    pub(crate) fn keep_from_dumps(&self) -> Result<(), Error> {
        // SAFETY: the advice changes no byte.
        unsafe { self.advise(Advice::LinuxDontDump) }
    }

    /// Excludes the contents of the pages from children. In a child, the range is mapped and reads
    /// as zeros.
    pub(crate) fn keep_from_children(&self) -> Result<(), Error> {
        // SAFETY: this changes no byte in this process, and a child reads zeros, as in new memory.
        unsafe { self.advise(Advice::LinuxWipeOnFork) }
    }

    /// Calls `madvise` for the whole range. A part with other advice would count as a separate
    /// mapping, and a process is allowed only 65,530 mappings. The call can fail for lack of
    /// mappings if the kernel merged the range with an adjacent mapping.
    ///
    /// # Safety
    /// The advice changes no byte that a thread depends on.
    unsafe fn advise(&self, advice: Advice) -> Result<(), Error> {
        // SAFETY: the range is this live mapping. The caller guarantees harmless advice.
        match unsafe { madvise(self.base.as_ptr().cast(), self.len, advice) } {
            // If the kernel does not support the advice, the mapping is used without it.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(_) => Err(Error::Mapping { bytes: self.len }),
        }
    }

    /// Recreates a forgotten `Mapping`. The result owns the range.
    ///
    /// # Safety
    /// `base` and `len` are those of a `Mapping` that was passed to `std::mem::forget`, and `adopt`
    /// is called once for that mapping.
    pub(crate) unsafe fn adopt(base: NonNull<u8>, len: usize) -> Self {
        Mapping { base, len }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Releases `len` bytes at `start` to the system. They then read as zero. Returns false if the
/// system refuses, for example for locked memory. The bytes are then unchanged.
///
/// # Safety
/// The range lies in a live `Mapping`, and no thread depends on the old bytes.
pub(crate) unsafe fn release_at(start: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller guarantees that the range is mapped and its old bytes are not needed.
    unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) }.is_ok()
}

/// An address range as an `iovec`, the form in which a system call accepts many ranges.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct IoRange(libc::iovec);

impl IoRange {
    pub(crate) const NONE: IoRange = IoRange::new(NonNull::dangling(), 0);

    pub(crate) const fn new(start: NonNull<u8>, len: usize) -> Self {
        IoRange(libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len })
    }
}

/// Releases all `ranges` in one system call, which interrupts the other processors only once.
/// Returns false if the kernel lacks the call (before Linux 6.14) or refuses a range. Other ranges
/// can then be released.
///
/// # Safety
/// Each range meets the requirements of [`release_at`].
pub(crate) unsafe fn release_all_at(ranges: &[IoRange]) -> bool {
    if let [IoRange(range)] = ranges {
        let start = NonNull::new(range.iov_base.cast());
        // SAFETY: the caller guarantees for the range what `release_at` requires.
        return start.is_some_and(|start| unsafe { release_at(start, range.iov_len) });
    }
    // SAFETY: the advice zeroes the ranges. The caller guarantees that no thread needs the bytes.
    !crate::is_confined() && unsafe { advise_all(ranges, libc::MADV_DONTNEED) }
}

/// Asks the system to populate `ranges`, which are whole pages. The request changes no byte of
/// memory. If the system refuses it, the pages are populated at the first touch.
pub(crate) fn populate_all_at(ranges: &[IoRange]) {
    // SAFETY: the advice overwrites each writable page with its own bytes, so no byte changes. The
    // call fails without effect if nothing is mapped.
    let _ = !crate::is_confined() && unsafe { advise_all(ranges, libc::MADV_POPULATE_WRITE) };
}

/// Calls `process_madvise` once for many ranges of this process. Returns whether the system
/// accepted the advice for all ranges.
///
/// # Safety
/// The advice is sound for each range.
unsafe fn advise_all(ranges: &[IoRange], advice: libc::c_int) -> bool {
    /// The number that stands for a descriptor of the calling process, also in a child of fork.
    const PIDFD_SELF: libc::c_int = -10000;
    let bytes: usize = ranges.iter().map(|range| range.0.iov_len).sum();
    // SAFETY: an IoRange is an iovec. The slice outlives the call. The caller guarantees soundness.
    let done = unsafe {
        let call = libc::SYS_process_madvise;
        libc::syscall(call, PIDFD_SELF, ranges.as_ptr(), ranges.len(), advice, 0)
    };
    usize::try_from(done) == Ok(bytes)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap_stuck();
        // SAFETY: the range belongs to this mapping, which is dropped, so no thread uses it again.
        unsafe {
            if !unmap(self.base, self.len) {
                release_at(self.base, self.len);
                keep_stuck(self.base, self.len);
            }
        }
    }
}

/// Unmaps a range. Returns false if the system refuses.
///
/// # Safety
/// The range is a whole mapping from [`Mapping::reserve`] or a part, and no thread uses the range.
unsafe fn unmap(start: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller guarantees that no thread uses the range.
    len == 0 || unsafe { munmap(start.as_ptr().cast(), len) }.is_ok()
}

/// Returns the size of the stuck ranges in bytes. The system refused to unmap these ranges, because
/// the process had its maximum number of mappings (`vm.max_map_count`).
pub fn stuck_bytes() -> usize {
    STUCK_BYTES.load(Relaxed)
}

/// Records a stuck range, which stays mapped if another thread holds the lock or no memory is left.
///
/// # Safety
/// `start` and `len` are those of a mapping whose only owner no longer uses it.
unsafe fn keep_stuck(start: NonNull<u8>, len: usize) {
    STUCK_BYTES.fetch_add(len, Relaxed);
    if let Some(mut ranges) = STUCK.try_lock()
        && ranges.try_reserve(1).is_ok()
    {
        ranges.push((start.as_ptr().expose_provenance(), len));
    }
}

/// Tries to unmap the stuck ranges.
fn unmap_stuck() {
    if STUCK_BYTES.load(Relaxed) == 0 {
        return;
    }
    let Some(mut ranges) = STUCK.try_lock() else { return };
    ranges.retain(|&(start, len)| {
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut(start));
        // SAFETY: the caller of `keep_stuck` guaranteed that nothing else refers to the range, and
        // an unmapped range is removed from the list.
        let is_gone = start.is_none_or(|start| unsafe { unmap(start, len) });
        STUCK_BYTES.fetch_sub(if is_gone { len } else { 0 }, Relaxed);
        !is_gone
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_zero_and_released() {
        let page = page_size();
        let mapping = Mapping::reserve(16 * page, 1 << 20, None).unwrap();
        assert_eq!(mapping.base().addr().get() % (1 << 20), 0);
        let at = mapping.base().as_ptr();
        // SAFETY: both bytes lie in the 16 pages mapped, which only this thread uses.
        unsafe {
            assert_eq!(*at.add(5 * page), 0);
            *at.add(5 * page) = 7;
            assert!(release_at(mapping.base().add(5 * page), page));
            assert_eq!(*at.add(5 * page), 0);
        }
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        let bytes = 1 << 60;
        assert_eq!(Mapping::reserve(bytes, 4096, None).unwrap_err(), Error::Mapping { bytes });
    }
}
