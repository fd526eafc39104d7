//! Managed memory across a fork: pages that parent and child share, and memory that a child lacks.
//!
//! # Safety
//! See [`memory`](super). No function here changes data.
#![allow(unsafe_code)]

use super::Managed;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::Range;

impl Managed {
    /// Makes each page of a range present and private to this process: shared pages are copied.
    pub(crate) fn make_own(&self, range: Range<usize>) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: this changes no data.
        unsafe { madvise(start, bytes, Advice::LinuxPopulateWrite) }
    }

    /// Sets whether children inherit this memory.
    pub(crate) fn set_inherited(&self, is_inherited: bool) -> Result<(), Errno> {
        let advice = if is_inherited { Advice::LinuxDoFork } else { Advice::LinuxDontFork };
        let (start, bytes) = self.place(&(0..self.own));
        // SAFETY: this changes no data here. In a child, `keep_place` ensures that nothing else is
        // mapped there.
        unsafe { madvise(start, bytes, advice) }
    }

    /// In a child that lacks this memory, maps its range as PROT_NONE, so that nothing else is
    /// mapped there.
    pub(crate) fn keep_place(&self) -> Result<(), Errno> {
        let (start, bytes) = self.place(&(0..self.own));
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: FIXED_NOREPLACE replaces nothing that is mapped there already.
        let there = unsafe { mmap_anonymous(start, bytes, ProtFlags::empty(), flags)? };
        // A kernel that does not know this flag (before Linux 4.17) may map another address.
        if there == start {
            return Ok(());
        }
        // SAFETY: the range was just mapped, and nothing uses it.
        let _left = unsafe { munmap(there, bytes) };
        Err(Errno::EXIST)
    }
}
