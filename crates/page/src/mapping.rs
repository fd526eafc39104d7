//! The only door to the system's memory calls.
//!
//! # Safety
//! A [`Mapping`] owns the address range it made and nothing else; every call below is confined to
//! that range. Memory of a private anonymous mapping reads as zero until written, so any type for
//! which zero bytes are valid may lie in it.
//!
//! The system refuses to unmap a range amid a larger mapping (neighbours of the same kind are one
//! to it) while the process has all the mappings it may have. A range is then not forgotten: its
//! memory is given back, and it is unmapped later ([`leftover`](crate::leftover)).
#![allow(unsafe_code)]

use crate::leftover;
use crate::supply::{Request, Supply};
use crate::{Error, page_size, room};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// An owned range of private anonymous memory, unmapped on drop. Only touched pages cost memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapping is an address range without interior state; what is read or written in it, and
// by whom, is the business of the types that hand out references into it.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` only gives its base, its length and page-wise release (an unsafe
// call).
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes at an address that is a multiple of `align`, without huge pages.
    pub(crate) fn reserve(
        len: usize,
        align: usize,
        supply: Option<&dyn Supply>,
    ) -> Result<Self, Error> {
        debug_assert!(len.is_multiple_of(page_size()) && align.is_power_of_two());
        let refused = Error::Mapping { bytes: len };
        if supply.is_some_and(|supply| !supply.grant(Request::Map { bytes: len })) {
            return Err(refused);
        }
        let slack = if align > page_size() { align } else { 0 };
        let whole = len.checked_add(slack).ok_or(refused)?;
        let asked = room::ask(whole).ok_or(refused)?;
        let whole = map(whole).ok_or(refused)?;
        let skip = whole.addr().get().next_multiple_of(align) - whole.addr().get();
        debug_assert!(skip <= slack);
        // SAFETY: `skip <= slack`, so the result lies in the len + slack bytes just mapped.
        let base = unsafe { whole.add(skip) };
        drop(Mapping { base: whole, len: skip });
        // SAFETY: `skip + len <= len + slack`: one past the part that is kept.
        drop(Mapping { base: unsafe { base.add(len) }, len: slack - skip });
        drop(asked);
        let mapping = Mapping { base, len };
        // Huge pages are not given back in parts.
        // SAFETY: no byte changes.
        unsafe { mapping.advise(Advice::LinuxNoHugepage) }?;
        Ok(mapping)
    }

    /// Gives the range back to the system; or, where that refuses, it stays as it is.
    pub(crate) fn unmap(self) -> Result<(), Self> {
        let mapping = ManuallyDrop::new(self);
        match unmap(mapping.base, mapping.len) {
            true => Ok(()),
            false => Err(ManuallyDrop::into_inner(mapping)),
        }
    }

    /// Leaves it out of core dumps.
    pub(crate) fn keep_from_dumps(&self) -> Result<(), Error> {
        // SAFETY: no byte changes.
        unsafe { self.advise(Advice::LinuxDontDump) }
    }

    /// Leaves its pages out of children: they have zeros there. The addresses stay the mapping's in
    /// a child too, so nothing of the child's own comes to lie there.
    pub(crate) fn keep_from_children(&self) -> Result<(), Error> {
        // SAFETY: no byte changes here, and zeros are as good as fresh memory there.
        unsafe { self.advise(Advice::LinuxWipeOnFork) }
    }

    /// Advises all of it: parts would be mappings of their own, of which there can be 65,530. So
    /// there may be one too many even so, where neighbours are one mapping to the system: that is
    /// refused as a mapping would be.
    ///
    /// # Safety
    /// The advice changes no byte.
    unsafe fn advise(&self, advice: Advice) -> Result<(), Error> {
        // SAFETY: the range is a live mapping, this one's; the caller speaks for the advice.
        match unsafe { madvise(self.base.as_ptr().cast(), self.len, advice) } {
            // A system that does not know it goes on without.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(_) => Err(Error::Mapping { bytes: self.len }),
        }
    }

    /// Takes over a mapping that was forgotten.
    ///
    /// # Safety
    /// `base` and `len` are those of a Mapping that `std::mem::forget` was given.
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

/// Gives `len` bytes at `start` back to the system; they read as zero afterwards. False where the
/// system refused (locked memory): the bytes are then unchanged.
///
/// # Safety
/// The range lies in a live `Mapping`, and no one expects its old bytes any more.
pub(crate) unsafe fn release_at(start: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller vouches for the range; private anonymous memory reads as zero afterwards.
    unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) }.is_ok()
}

/// A range of addresses, as the system takes them by the dozen.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct IoRange(libc::iovec);

impl IoRange {
    pub(crate) const NONE: IoRange = IoRange::new(NonNull::dangling(), 0);

    pub(crate) const fn new(start: NonNull<u8>, len: usize) -> Self {
        IoRange(libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len })
    }
}

/// As [`release_at`] for all `ranges`, in one call: so other processors are interrupted once, not
/// once a range. False where the system can't do that (before Linux 6.14), or refused a range: then
/// any of them may have gone.
///
/// # Safety
/// As for [`release_at`], of each.
pub(crate) unsafe fn release_all_at(ranges: &[IoRange]) -> bool {
    if let [IoRange(range)] = ranges {
        let start = NonNull::new(range.iov_base.cast());
        // SAFETY: as the caller says.
        return start.is_some_and(|start| unsafe { release_at(start, range.iov_len) });
    }
    // SAFETY: as the caller says.
    unsafe { advise_all(ranges, libc::MADV_DONTNEED) }
}

/// Has the system find memory for all `ranges` at once, which are whole pages, whatever they hold.
/// Where it can't, it does so when they are touched.
///
/// # Safety
/// They lie in a live `Mapping`.
pub(crate) unsafe fn populate_all_at(ranges: &[IoRange]) {
    // SAFETY: this advice changes no byte of a private mapping; of the ranges the caller vouches.
    let _ = unsafe { advise_all(ranges, libc::MADV_POPULATE_WRITE) };
}

/// One advice about many ranges of this process; whether it was taken for all of them.
///
/// # Safety
/// As the advice asks for, of each.
unsafe fn advise_all(ranges: &[IoRange], advice: libc::c_int) -> bool {
    /// The calling process: no descriptor to open, and in a child it means the child.
    const PIDFD_SELF: libc::c_int = -10000;
    let bytes: usize = ranges.iter().map(|range| range.0.iov_len).sum();
    // SAFETY: a IoRange is an iovec, and the slice outlives the call; of the ranges the caller
    // vouches.
    let done = unsafe {
        let call = libc::SYS_process_madvise;
        libc::syscall(call, PIDFD_SELF, ranges.as_ptr(), ranges.len(), advice, 0)
    };
    usize::try_from(done) == Ok(bytes)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        leftover::retry();
        if !unmap(self.base, self.len) {
            // SAFETY: the range is this mapping's, and no one uses it any more.
            unsafe { release_at(self.base, self.len) };
            leftover::add(self.base, self.len);
        }
    }
}

fn map(len: usize) -> Option<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a null hint without MAP_FIXED never replaces an existing mapping.
    let address = unsafe {
        mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)
    };
    NonNull::new(address.ok()?.cast())
}

/// Unmaps a range that [`leftover::add`] was given; whether the system took it.
///
/// # Safety
/// `start` and `len` are those of such a range, once.
pub(crate) unsafe fn unmap_again(start: NonNull<u8>, len: usize) -> bool {
    unmap(start, len)
}

/// Whether the system took the range back.
fn unmap(start: NonNull<u8>, len: usize) -> bool {
    // SAFETY: called only with ranges that `map` returned, or parts of them, whose owner is giving
    // them up.
    len == 0 || unsafe { munmap(start.as_ptr().cast(), len) }.is_ok()
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
