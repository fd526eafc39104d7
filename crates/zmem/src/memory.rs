//! Maps managed memory, and changes the protection and the pages of this memory.
//!
//! # Safety
//! The program reads and writes [`Managed`] memory, while functions of this module change its
//! protection and its pages. Only the owner of a block calls these functions for the block (zm-S1).
//! The owner's calls are ordered so that any access to the block finds the block's data or faults
//! (zm-S2).
#![allow(unsafe_code)]

pub(crate) mod pages;
mod windows;

use crate::error::last_error;
use crate::table::{map, unmap};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munlock};
use std::ffi::c_void;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use windows::Windows;

/// Returns the number of bytes that one page table maps. A page table is a page of 8-byte entries.
pub(crate) fn table_reach() -> usize {
    page::page_size() * (page::page_size() / 8)
}

/// Managed memory. Each parameter `range` consists of offsets, and begins and ends at page
/// boundaries.
#[derive(Debug)]
pub(crate) struct Managed {
    windows: Windows,
    /// Whether the memory was mapped by this crate, which therefore unmaps it.
    pub(crate) is_ours: bool,
}

// SAFETY: the windows consist of memory that all threads share. Owners of blocks serialize changes
// (zm-S1).
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

impl Deref for Managed {
    type Target = Windows;

    fn deref(&self) -> &Windows {
        &self.windows
    }
}

impl Managed {
    /// Maps `bytes` bytes of PROT_NONE memory at an address that is a multiple of `align`.
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
        Ok(Managed::new(start, bytes, true))
    }

    /// Maps `bytes` bytes of readable and writable memory, the size of a region. This memory holds
    /// contents of the region's blocks, at the blocks' offsets. Because of the alignment, each
    /// chunk has page tables of its own.
    pub(crate) fn map_beside(bytes: usize) -> Result<Self, Errno> {
        let beside = Managed::map(bytes, table_reach())?;
        beside.open(0..bytes)?;
        Ok(beside)
    }

    /// Maps `bytes` bytes of PROT_NONE memory at `address`.
    pub(crate) fn map_at(address: usize, bytes: usize) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        let wanted = std::ptr::without_provenance_mut(address);
        // SAFETY: FIXED_NOREPLACE replaces no existing mapping.
        let there = unsafe { mmap_anonymous(wanted, bytes, ProtFlags::empty(), flags)? };
        let start = NonNull::new(there.cast()).ok_or(Errno::NOMEM)?;
        // A kernel without FIXED_NOREPLACE (before Linux 4.17) may create the mapping at another
        // address.
        let managed = Managed::new(start, bytes, true);
        if there == wanted { Ok(managed) } else { Err(Errno::EXIST) }
    }

    fn new(start: NonNull<u8>, bytes: usize, is_ours: bool) -> Self {
        let managed = Managed { windows: Windows::new(start, bytes), is_ours };
        managed.keep_pages_small(0..bytes);
        managed
    }

    /// Reserves `room` bytes of offsets for windows that are added later, and for the gaps before
    /// them.
    pub(crate) fn with_room(mut self, room: usize) -> Self {
        self.windows.bytes += room;
        self
    }

    /// Takes over readable and writable memory of the program.
    ///
    /// # Safety
    /// The memory is private and anonymous. During the lifetime of the result, the program does not
    /// unmap the memory or change its protection.
    pub(crate) unsafe fn of_program(start: NonNull<u8>, bytes: usize) -> Self {
        Managed::new(start, bytes, false)
    }

    fn protect(&self, range: Range<usize>, flags: MprotectFlags) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory. The caller owns the range's blocks.
        unsafe { mprotect(start, bytes, flags) }
    }

    /// Makes the range PROT_NONE, so that every access faults.
    pub(crate) fn close(&self, range: Range<usize>) -> Result<(), Errno> {
        self.protect(range, MprotectFlags::empty())
    }

    /// Makes the range read-only, so that every write faults.
    pub(crate) fn protect_writes(&self, range: Range<usize>) -> Result<(), Errno> {
        self.protect(range, MprotectFlags::READ)
    }

    /// Makes the range readable and writable. In an executable window, the range also becomes
    /// executable.
    pub(crate) fn open(&self, range: Range<usize>) -> Result<(), Errno> {
        let flags = self.open_flags(&range);
        self.protect(range, flags)
    }

    ///
    /// # Safety
    /// `advice` changes no data, or the caller owns the blocks in the range, and the blocks' data
    /// are stored elsewhere or not needed.
    unsafe fn advise(&self, range: Range<usize>, advice: i32) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory. The caller guarantees that no data are lost.
        if unsafe { libc::madvise(start, bytes, advice) } == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Releases the pages of a range. The range then reads as zeros when it is readable.
    pub(crate) fn drop_pages(&self, range: Range<usize>) -> Result<(), Errno> {
        // SAFETY: the caller owns the blocks. Their data are stored elsewhere, or the program does
        // not need them any more.
        unsafe { self.advise(range, libc::MADV_DONTNEED) }
    }

    /// Excludes a range from huge pages, which the kernel would have to split when it drops single
    /// blocks. A kernel without huge pages refuses the call, which is harmless.
    pub(crate) fn keep_pages_small(&self, range: Range<usize>) {
        // SAFETY: the advice changes no data.
        let _refused = unsafe { self.advise(range, libc::MADV_NOHUGEPAGE) };
    }

    /// Unlocks a range that the program locked, so that the kernel can drop the range's pages. If
    /// the process avoids optional system calls, returns an error without a call.
    pub(crate) fn unlock(&self, range: Range<usize>) -> Result<(), Errno> {
        if page::is_confined() {
            return Err(Errno::PERM);
        }
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory. The call changes no data.
        unsafe { munlock(start, bytes) }
    }

    /// In a child that lacks this memory, maps PROT_NONE memory at the same addresses, so that no
    /// other mapping is created there.
    pub(crate) fn keep_place(&self) -> Result<(), Errno> {
        Managed::map_at(self.addresses().start, self.addresses().len()).map(std::mem::forget)
    }

    /// Replaces all mappings in a range of an arena by PROT_NONE memory.
    pub(crate) fn map_anew(&self, range: Range<usize>) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range is within this memory. The caller owns the range's blocks, and the
        // program no longer uses them.
        unsafe { map_over(start, bytes)? };
        self.settle(range);
        Ok(())
    }

    /// Adds a PROT_NONE window, which replaces the existing mappings in its range. If
    /// `is_executable` is true, open blocks of the window are executable. Only one thread at a time
    /// adds windows.
    ///
    /// # Errors
    /// `Errno::NOSPC` if too few offsets are left for the gap and the window, or the maximum number
    /// of windows exists.
    ///
    /// # Safety
    /// The mappings in the range belong to the caller, and no code uses them.
    pub(crate) unsafe fn add_window(
        &self,
        addresses: Range<usize>,
        gap: usize,
        is_executable: bool,
    ) -> Result<(), Errno> {
        if addresses.len() > self.room(gap) {
            return Err(Errno::NOSPC);
        }
        let start = std::ptr::with_exposed_provenance_mut(addresses.start);
        // SAFETY: the caller owns the mappings in this range, and no code uses them.
        unsafe { map_over(start, addresses.len())? };
        self.settle(self.windows.add(&addresses, gap, is_executable));
        Ok(())
    }

    /// Unlocks a range that was just mapped, because the kernel locks it after
    /// `mlockall(MCL_FUTURE)`. Excludes the range from huge pages.
    fn settle(&self, range: Range<usize>) {
        let _refused = self.unlock(range.clone());
        self.keep_pages_small(range);
    }
}

/// Maps PROT_NONE memory in place of the existing mappings.
///
/// # Safety
/// The mappings in the range belong to the caller, and no code uses them.
unsafe fn map_over(start: *mut c_void, bytes: usize) -> Result<(), Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: guaranteed by the caller.
    unsafe { mmap_anonymous(start, bytes, ProtFlags::empty(), flags) }.map(drop)
}

impl Drop for Managed {
    fn drop(&mut self) {
        if self.is_ours {
            for Range { start, end } in self.windows() {
                let start = NonNull::new(std::ptr::with_exposed_provenance_mut(start));
                start.into_iter().for_each(|start| unmap(start, end - start.addr().get()));
            }
        }
    }
}
