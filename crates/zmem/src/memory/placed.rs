//! Managed memory at addresses that the caller chooses.
//!
//! # Safety
//! See [`memory`](super).
#![allow(unsafe_code)]

use super::{Managed, Owner};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ops::Range;
use std::ptr::NonNull;

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
