//! The only door to the system's memory calls.
//!
//! # Safety
//! A [`Mapping`] owns the address range it made and nothing else; every call below is confined to
//! that range. Memory of a private anonymous mapping reads as zero until written, so any type for
//! which zero bytes are valid may lie in it.
//!
//! The system refuses to unmap a range amid a larger mapping (neighbours of the same kind are one
//! to it) while the process has all the mappings it may have. Such a range is *stuck*: its memory
//! is given back, and it is unmapped when a later mapping is dropped. From when its owner gave it
//! up until then it is in `STUCK`, once, and nothing else knows of it.
#![allow(unsafe_code)]

use crate::fork::Mutex;
use crate::supply::{Request, Supply};
use crate::{Error, page_size, room};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of bytes in stuck ranges.
static STUCK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Stuck ranges. No thread waits for this lock, so a child that inherits it locked is not blocked.
static STUCK: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// An owned range of private anonymous memory, unmapped on drop. Only touched pages cost memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapping is an address range; the types that hand out references say who writes there.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives out only the base and the length.
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
        // SAFETY: `skip + len <= len + slack`: one past the part that is kept.
        drop(Mapping { base: unsafe { base.add(len) }, len: slack - skip });
        drop(asked);
        let mapping = Mapping { base, len };
        // SAFETY: no byte changes. (Huge pages would not be given back in parts.)
        unsafe { mapping.advise(Advice::LinuxNoHugepage) }?;
        Ok(mapping)
    }

    /// Unmaps the range. Returns the mapping unchanged if the system refuses.
    pub(crate) fn unmap(self) -> Result<(), Self> {
        let mapping = ManuallyDrop::new(self);
        // SAFETY: the range is this mapping's, which is consumed here.
        match unsafe { unmap(mapping.base, mapping.len) } {
            true => Ok(()),
            false => Err(ManuallyDrop::into_inner(mapping)),
        }
    }

    /// Excludes the range from core dumps.
    pub(crate) fn keep_from_dumps(&self) -> Result<(), Error> {
        // SAFETY: no byte changes.
        unsafe { self.advise(Advice::LinuxDontDump) }
    }

    /// Excludes the pages from children, which find zeros there. The addresses stay mapped in a
    /// child, so no mapping of the child's own comes to lie there.
    pub(crate) fn keep_from_children(&self) -> Result<(), Error> {
        // SAFETY: no byte changes here, and zeros are as good as fresh memory there.
        unsafe { self.advise(Advice::LinuxWipeOnFork) }
    }

    /// Gives the system an advice about the whole range: a part with an advice would count as a
    /// mapping of its own, of which a process has 65,530 at most. Even the whole range may be one
    /// too many, where the system counted it and its neighbour as one.
    ///
    /// # Safety
    /// The advice changes no byte that anyone expects.
    unsafe fn advise(&self, advice: Advice) -> Result<(), Error> {
        // SAFETY: the range is this live mapping; the caller vouches for the advice.
        match unsafe { madvise(self.base.as_ptr().cast(), self.len, advice) } {
            // The advice is optional on a system that does not know it.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(_) => Err(Error::Mapping { bytes: self.len }),
        }
    }

    /// Makes the owner of a mapping again, after its `Mapping` was forgotten.
    ///
    /// # Safety
    /// `base` and `len` are those of a `Mapping` that was given to `std::mem::forget`; this is
    /// called once for it.
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

/// Gives `len` bytes at `start` back to the system; they read as zero afterwards. Returns false if
/// the system refuses (locked memory); the bytes are unchanged then.
///
/// # Safety
/// The range lies in a live `Mapping`, and no one expects its old bytes.
pub(crate) unsafe fn release_at(start: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller vouches for the range; private anonymous memory reads as zero afterwards.
    unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) }.is_ok()
}

/// A range of addresses in the form in which the system takes many at once.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct IoRange(libc::iovec);

impl IoRange {
    pub(crate) const NONE: IoRange = IoRange::new(NonNull::dangling(), 0);

    pub(crate) const fn new(start: NonNull<u8>, len: usize) -> Self {
        IoRange(libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len })
    }
}

/// Gives all `ranges` back in one call, which interrupts other processors once. Returns false if
/// the system can't do that (before Linux 6.14) or refuses a range; any range may be gone then.
///
/// # Safety
/// As for [`release_at`], of each.
pub(crate) unsafe fn release_all_at(ranges: &[IoRange]) -> bool {
    if let [IoRange(range)] = ranges {
        let start = NonNull::new(range.iov_base.cast());
        // SAFETY: the caller vouches for the range as `release_at` asks.
        return start.is_some_and(|start| unsafe { release_at(start, range.iov_len) });
    }
    // SAFETY: the advice zeroes the ranges, whose old bytes no one expects, as the caller vouches.
    !crate::is_confined() && unsafe { advise_all(ranges, libc::MADV_DONTNEED) }
}

/// Has the system provide memory for `ranges`, which are whole pages. This is a hint: it changes no
/// byte of memory, and if the system refuses, it provides the memory at the first touch.
pub(crate) fn populate_all_at(ranges: &[IoRange]) {
    // SAFETY: the advice acts as a write of each page's own bytes would, and only on pages that may
    // be written: it changes no byte, and fails, harmless, where nothing is mapped.
    let _ = !crate::is_confined() && unsafe { advise_all(ranges, libc::MADV_POPULATE_WRITE) };
}

/// Gives the system one advice about many ranges of this process. Returns whether it was taken for
/// all of them.
///
/// # Safety
/// The advice is sound for each range.
unsafe fn advise_all(ranges: &[IoRange], advice: libc::c_int) -> bool {
    /// The calling process: there is no descriptor to open, and in a child it means the child.
    const PIDFD_SELF: libc::c_int = -10000;
    let bytes: usize = ranges.iter().map(|range| range.0.iov_len).sum();
    // SAFETY: an IoRange is an iovec, and the slice outlives the call; the caller vouches for the
    // advice.
    let done = unsafe {
        let call = libc::SYS_process_madvise;
        libc::syscall(call, PIDFD_SELF, ranges.as_ptr(), ranges.len(), advice, 0)
    };
    usize::try_from(done) == Ok(bytes)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap_stuck();
        // SAFETY: the range is this mapping's, which ends here: no one uses it afterwards.
        unsafe {
            if !unmap(self.base, self.len) {
                release_at(self.base, self.len);
                keep_stuck(self.base, self.len);
            }
        }
    }
}

/// Unmaps a range. Returns whether the system took it back.
///
/// # Safety
/// The range is one that [`Mapping::reserve`] mapped, or a part of it, and no one uses it.
unsafe fn unmap(start: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller vouches for the range.
    len == 0 || unsafe { munmap(start.as_ptr().cast(), len) }.is_ok()
}

/// Returns the bytes of unused address space that the system has refused to take back so far,
/// because the process had all the mappings it may have (`vm.max_map_count`).
pub fn stuck_bytes() -> usize {
    STUCK_BYTES.load(Relaxed)
}

/// Notes a stuck range. Without memory to note it, it stays mapped for the life of the process.
///
/// # Safety
/// `start` and `len` are those of a mapping whose owner gave it up, and which no one else knows of.
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
        // SAFETY: the caller of `keep_stuck` vouched that nothing else knows of the range, and it
        // leaves the list when it is unmapped.
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
        // SAFETY: both bytes lie in the 16 pages mapped, and this thread alone knows of them.
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
