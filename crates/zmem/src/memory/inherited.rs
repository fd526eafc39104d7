//! Managed memory and forks: pages that parent and child share, and memory that a child lacks.
//!
//! # Safety
//! See [`memory`](super). No function in this module changes data.
#![allow(unsafe_code)]

use super::Managed;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::Range;

impl Managed {
    /// Makes each page of a range present and private to this process: shared pages are copied.
    pub(crate) fn make_own(&self, range: Range<usize>) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the call changes no data.
        unsafe { madvise(start, bytes, Advice::LinuxPopulateWrite) }
    }

    /// Sets whether children inherit this memory.
    pub(crate) fn set_inherited(&self, is_inherited: bool) -> Result<(), Errno> {
        let advice = if is_inherited { Advice::LinuxDoFork } else { Advice::LinuxDontFork };
        let (start, bytes) = self.place(&(0..self.own));
        // SAFETY: the call changes no data in this process. In a child, `keep_place` ensures that
        // no other mapping is created in the range.
        unsafe { madvise(start, bytes, advice) }
    }

    /// In a child that lacks this memory, maps the range of the memory as PROT_NONE, so that no
    /// other mapping is created in this range.
    pub(crate) fn keep_place(&self) -> Result<(), Errno> {
        let (start, bytes) = self.place(&(0..self.own));
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: FIXED_NOREPLACE replaces no existing mapping.
        let there = unsafe { mmap_anonymous(start, bytes, ProtFlags::empty(), flags)? };
        // A kernel without this flag (before Linux 4.17) may create the mapping at another address.
        if there == start {
            return Ok(());
        }
        // SAFETY: the range was just mapped, and no code uses it.
        let _left = unsafe { munmap(there, bytes) };
        Err(Errno::EXIST)
    }
}
