//! Maps memory at fixed addresses, and uses memory outside of a region (staging). Blocks are filled
//! in staging and then moved to the region, or are moved from the region to staging while they are
//! closed.
//!
//! # Safety
//! See [`memory`](super).
#![allow(unsafe_code)]

use super::{Managed, Owner};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::mm::{MprotectFlags, MremapFlags, mremap_fixed};
use std::ops::Range;
use std::ptr::NonNull;

/// The flag exists since Linux 5.7. Not every backend of `rustix` defines it.
const MREMAP_DONTUNMAP: MremapFlags = MremapFlags::from_bits_retain(4);

impl Managed {
    /// Copies the bytes from offset `at` on to `buf`. This memory is a readable staging area.
    pub(crate) fn copy_out(&self, at: usize, buf: &mut [u8]) {
        assert!(self.owner == Owner::Us);
        let (start, bytes) = self.place(&(at..at + buf.len()));
        // SAFETY: the range is within this memory, where only whole pages are added and removed. If
        // a page is removed during the copy, the caller copies zeros, and later fails to become the
        // owner of the block (zm-U4).
        unsafe { start.cast::<u8>().copy_to_nonoverlapping(buf.as_mut_ptr(), bytes) }
    }

    /// Copies the bytes from offset `at` on to `buf`. The bytes are readable. The caller prevents
    /// writes to them, or checks after the copy whether a thread wrote to them.
    pub(crate) fn read_open(&self, at: usize, buf: &mut [u8]) {
        let (start, bytes) = self.place(&(at..at + buf.len()));
        // SAFETY: the range is within this memory, and readable. If a thread writes to it during
        // the copy, the caller detects that and does not use the copy.
        unsafe { buf.as_mut_ptr().copy_from_nonoverlapping(start.cast(), bytes) }
    }

    /// Copies `bytes` to the offset `at` of this memory, from which
    /// [`place_from`](Self::place_from) moves them to the region.
    pub(crate) fn stage(&self, at: usize, bytes: &[u8]) {
        let (start, len) = self.place(&(at..at + bytes.len()));
        // SAFETY: the range is within this memory, and open. Only the owner of the block at this
        // offset accesses this part of the memory.
        unsafe { start.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), len) }
    }

    /// Moves the pages of a range of `staged` to the same range of this memory, atomically for
    /// other threads. Afterwards the range of `staged` has no pages. The caller owns the blocks.
    pub(crate) fn place_from(&self, staged: &Managed, range: Range<usize>) -> Result<(), Errno> {
        let (from, bytes) = staged.place(&range);
        let (to, _) = self.place(&range);
        let flags = MremapFlags::MAYMOVE | MREMAP_DONTUNMAP;
        // SAFETY: both ranges are within their memory. The caller owns the blocks, and the replaced
        // pages hold no data, because the blocks are absent. With DONTUNMAP, `staged` stays mapped.
        unsafe { mremap_fixed(from, bytes, bytes, flags, to)? };
        // Staged memory is not executable.
        if self.open_flags(&range).contains(MprotectFlags::EXEC) {
            self.open(range)
        } else {
            Ok(())
        }
    }
}

impl Managed {
    /// Maps `bytes` bytes of PROT_NONE memory at `address`.
    pub(crate) fn map_at(address: usize, bytes: usize) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        let wanted = std::ptr::without_provenance_mut(address);
        // SAFETY: FIXED_NOREPLACE replaces no existing mapping.
        let there = unsafe { mmap_anonymous(wanted, bytes, ProtFlags::empty(), flags)? };
        let start = NonNull::new(there.cast()).ok_or(Errno::NOMEM)?;
        // A kernel without this flag (before Linux 4.17) may create the mapping at another address.
        let managed = Managed::new(start, bytes, Owner::Us);
        if there != wanted {
            return Err(Errno::EXIST);
        }
        managed.keep_pages_small();
        Ok(managed)
    }

    /// Maps a range of an arena again, as PROT_NONE, and replaces the existing mappings in the
    /// range.
    pub(crate) fn map_anew(&self, range: Range<usize>) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the range is within this memory. The caller owns its blocks, and the program no
        // longer uses them.
        unsafe { mmap_anonymous(start, bytes, ProtFlags::empty(), flags)? };
        // After `mlockall(MCL_FUTURE)` a new mapping is locked.
        let _refused = self.unlock(range.clone());
        self.keep_pages_small_in(range);
        Ok(())
    }
}
