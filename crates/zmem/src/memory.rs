//! Changes the protection and the pages of managed memory.
//!
//! # Safety
//! The program reads and writes [`Managed`] memory. Functions in this module change its protection,
//! and add and remove pages with their data. Only a block's owner calls these functions (zm-S1), in
//! an order in which any access to the block finds its data or faults (zm-S2).
#![allow(unsafe_code)]

mod advice;
mod contents;
mod staged;
mod windows;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, munlock, munmap};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use windows::Windows;

/// Guards exist since Linux 6.13; `libc` has no constants for them yet.
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

/// Returns the bytes that one page table maps. A page table is a page of 8-byte entries.
pub(crate) fn table_reach() -> usize {
    page::page_size() * (page::page_size() / 8)
}

pub(crate) fn map(bytes: usize, protection: ProtFlags) -> Result<NonNull<u8>, Errno> {
    // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
    let start = unsafe {
        mmap_anonymous(null_mut(), bytes, protection, MapFlags::PRIVATE | MapFlags::NORESERVE)?
    };
    if !page::is_confined() {
        // SAFETY: this changes no data. After `mlockall(MCL_FUTURE)` a new mapping is locked.
        let _refused = unsafe { munlock(start, bytes) };
    }
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

/// Unmaps memory that [`map`] mapped.
pub(crate) fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller mapped the memory, and no code uses it any more. If the call fails, the
    // memory stays mapped.
    let _left = unsafe { munmap(start.as_ptr().cast(), bytes) };
}

/// The code that maps and unmaps a mapping: this crate or the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Us,
    Program,
}

/// Managed memory. Ranges consist of offsets, and begin and end at page boundaries.
#[derive(Debug)]
pub(crate) struct Managed {
    start: NonNull<u8>,
    /// The number of bytes that are mapped at `start`. Their offsets begin at 0.
    own: usize,
    /// The number of all offsets. The offsets from `own` on are room for windows.
    bytes: usize,
    owner: Owner,
    windows: Windows,
}

// SAFETY: `start` points to memory that all threads share; owners of blocks serialize changes
// (zm-S1).
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

impl Managed {
    /// Maps PROT_NONE memory at a multiple of `align`.
    pub(crate) fn map(bytes: usize, align: usize) -> Result<Self, Errno> {
        let all = bytes.checked_add(align).ok_or(Errno::NOMEM)?;
        let first = map(all, ProtFlags::empty())?;
        let skip = first.addr().get().next_multiple_of(align) - first.addr().get();
        // SAFETY: `skip < align`, and `all` is `bytes + align`.
        let start = unsafe { first.add(skip) };
        // SAFETY: as above.
        let end = unsafe { start.add(bytes) };
        for (from, len) in [(first, skip), (end, align - skip)] {
            if len > 0 {
                unmap(from, len);
            }
        }
        let managed = Managed::new(start, bytes, Owner::Us);
        managed.keep_pages_small();
        Ok(managed)
    }

    fn new(start: NonNull<u8>, bytes: usize, owner: Owner) -> Self {
        Managed { start, own: bytes, bytes, owner, windows: Windows::default() }
    }

    /// Adds room for windows, `room` bytes for all windows together.
    pub(crate) fn with_room(mut self, room: usize) -> Self {
        self.bytes = self.own + room;
        self
    }

    /// Takes over memory of the program, which is readable and writable.
    ///
    /// # Safety
    /// The memory is private and anonymous. During the lifetime of the result, the program does not
    /// unmap it or change its protection.
    pub(crate) unsafe fn of_program(start: NonNull<u8>, bytes: usize) -> Self {
        let managed = Managed::new(start, bytes, Owner::Program);
        managed.keep_pages_small();
        managed
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the addresses of the first window.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.start.addr().get();
        start..start + self.own
    }

    /// Returns the address of a range.
    pub(crate) fn address_of(&self, range: &Range<usize>) -> usize {
        self.place(range).0.addr()
    }

    /// Returns the address and the length of a range.
    fn place(&self, range: &Range<usize>) -> (*mut c_void, usize) {
        assert!(range.start <= range.end, "outside the region");
        if range.end <= self.own {
            // SAFETY: the range is within the mapping, as just checked.
            return (unsafe { self.start.add(range.start) }.as_ptr().cast(), range.len());
        }
        let address = self.windows.address_of(range).expect("outside the region's windows");
        (std::ptr::with_exposed_provenance_mut(address), range.len())
    }

    fn protect(&self, range: Range<usize>, flags: MprotectFlags) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory; the caller owns its blocks.
        unsafe { mprotect(start, bytes, flags) }
    }

    /// Makes the range PROT_NONE, so that every access to it faults.
    pub(crate) fn close(&self, range: Range<usize>) -> Result<(), Errno> {
        self.protect(range, MprotectFlags::empty())
    }

    /// Makes the range read-only, so that every write to it faults.
    pub(crate) fn protect_writes(&self, range: Range<usize>) -> Result<(), Errno> {
        self.protect(range, MprotectFlags::READ)
    }

    /// Makes the range readable and writable, and also executable if its window is executable.
    pub(crate) fn open(&self, range: Range<usize>) -> Result<(), Errno> {
        let flags = self.open_flags(&range);
        self.protect(range, flags)
    }

    /// Releases the pages of a range. If the range is readable, it reads as zeros afterwards.
    pub(crate) fn drop_pages(&self, range: Range<usize>) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory. The caller owns the blocks in it. The blocks'
        // data are stored elsewhere, or the program does not need them any more.
        unsafe { madvise(start, bytes, Advice::LinuxDontNeed) }
    }

    /// Unlocks a range that the program locked, so that its pages can be evicted. If the process is
    /// confined, returns an error without a system call.
    pub(crate) fn unlock(&self, range: Range<usize>) -> Result<(), Errno> {
        if page::is_confined() {
            return Err(Errno::PERM);
        }
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory. The call changes no data.
        unsafe { munlock(start, bytes) }
    }

    /// Makes the kernel reclaim the pages of a range before other pages. Returns an error if some
    /// pages are locked or huge: callers use this function to find such pages.
    pub(crate) fn cool(&self, range: Range<usize>) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory. The call changes no data.
        unsafe { madvise(start, bytes, Advice::LinuxCold) }
    }

    /// Calls `madvise` with advice that `rustix` does not define. Repeats the call if the kernel
    /// requests that.
    fn advise_raw(&self, range: Range<usize>, advice: i32) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        loop {
            // SAFETY: as for `drop_pages`.
            if unsafe { libc::madvise(start, bytes, advice) } == 0 {
                return Ok(());
            }
            // SAFETY: `errno` belongs to this thread.
            match unsafe { *libc::__errno_location() } {
                // A fault of another thread interfered while a guard was being set.
                libc::EAGAIN | libc::EINTR => {}
                errno => return Err(Errno::from_raw_os_error(errno)),
            }
        }
    }

    /// Releases the pages of a range, and sets guards, so that every access to the range faults.
    pub(crate) fn guard(&self, range: Range<usize>) -> Result<(), Errno> {
        self.advise_raw(range, MADV_GUARD_INSTALL)
    }

    /// Removes the guards of a range, which then reads as zeros.
    pub(crate) fn unguard(&self, range: Range<usize>) -> Result<(), Errno> {
        self.advise_raw(range, MADV_GUARD_REMOVE)
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if self.owner == Owner::Us {
            for Range { start, end } in self.windows() {
                let start = NonNull::new(std::ptr::with_exposed_provenance_mut(start));
                start.into_iter().for_each(|start| unmap(start, end - start.addr().get()));
            }
        }
    }
}
