//! Windows: further ranges of addresses that belong to managed memory.
//!
//! ```text
//!   offsets     | first: mapped with the memory | gap | second | gap | third | gap | room ... |
//!   addresses   | start ..                            | anywhere, once it is added
//! ```
//! A window is never removed while the memory exists (zm-W1). Offsets in a gap have no address
//! (zm-W2).
//!
//! # Safety
//! See [`memory`](super).
#![allow(unsafe_code)]

use super::Managed;
use crate::policy::WINDOWS_MAX;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous};
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

#[derive(Debug, Default)]
pub(super) struct Windows {
    list: [Window; WINDOWS_MAX],
    /// The number of windows. A window is read only after it was counted.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Window {
    offset: AtomicUsize,
    address: AtomicUsize,
    bytes: AtomicUsize,
    is_executable: AtomicBool,
}

impl Window {
    fn offsets(&self) -> Range<usize> {
        let offset = self.offset.load(Relaxed);
        offset..offset + self.bytes.load(Relaxed)
    }

    fn addresses(&self) -> Range<usize> {
        let address = self.address.load(Relaxed);
        address..address + self.bytes.load(Relaxed)
    }
}

impl Windows {
    fn list(&self) -> &[Window] {
        &self.list[..self.count.load(Acquire)]
    }

    /// Returns the window that contains all of a range of offsets.
    fn find(&self, range: &Range<usize>) -> Option<&Window> {
        self.list().iter().find(|window| {
            let offsets = window.offsets();
            offsets.start <= range.start && range.end <= offsets.end
        })
    }

    /// Returns the address of a range of offsets that lies after the first window.
    pub(super) fn address_of(&self, range: &Range<usize>) -> Option<usize> {
        let window = self.find(range)?;
        Some(window.addresses().start + (range.start - window.offsets().start))
    }
}

impl Managed {
    /// Returns the addresses of each window, beginning with the first.
    pub(crate) fn windows(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let added = self.windows.list().iter().map(Window::addresses);
        std::iter::once(self.addresses()).chain(added)
    }

    /// Returns the offset of an address, if a window contains the address.
    pub(crate) fn offset_of(&self, address: usize) -> Option<usize> {
        let first = self.addresses();
        if first.contains(&address) {
            return Some(address - first.start);
        }
        let added = self.windows.list().iter();
        let window = added.into_iter().find(|window| window.addresses().contains(&address))?;
        Some(window.offsets().start + (address - window.addresses().start))
    }

    /// Returns the part of a range of offsets that belongs to the window of its first offset. If no
    /// window contains that offset, returns the range unchanged.
    pub(crate) fn in_window(&self, range: Range<usize>) -> Range<usize> {
        let end = match self.windows.find(&(range.start..range.start)) {
            _ if range.start < self.own => self.own,
            Some(window) => window.offsets().end,
            None => self.bytes,
        };
        range.start..range.end.min(end)
    }

    /// Returns the protection of a range while its blocks are open.
    pub(super) fn open_flags(&self, range: &Range<usize>) -> MprotectFlags {
        let window = self.windows.find(range);
        let is_executable = window.is_some_and(|window| window.is_executable.load(Relaxed));
        let exec = if is_executable { MprotectFlags::EXEC } else { MprotectFlags::empty() };
        MprotectFlags::READ | MprotectFlags::WRITE | exec
    }

    /// Returns whether an address lies in an executable window.
    pub(crate) fn is_executable(&self, address: usize) -> bool {
        self.offset_of(address)
            .is_some_and(|at| self.open_flags(&(at..at)).contains(MprotectFlags::EXEC))
    }

    /// Returns the offset at which the next window begins: a multiple of `gap`, at least `gap`
    /// bytes after the last window.
    fn next_offset(&self, gap: usize) -> usize {
        let last = self.windows.list().last().map_or(self.own, |window| window.offsets().end);
        last.next_multiple_of(gap).saturating_add(gap)
    }

    /// Returns the size in bytes of the largest window that can be added after a gap of `gap`
    /// bytes.
    pub(crate) fn room(&self, gap: usize) -> usize {
        match self.windows.list().len() < WINDOWS_MAX {
            true => self.bytes.saturating_sub(self.next_offset(gap)),
            false => 0,
        }
    }

    /// Adds a PROT_NONE window, and replaces the existing mappings in its range. If
    /// `is_executable`, the blocks of the window are executable while they are open. Only one
    /// thread at a time adds windows.
    ///
    /// # Errors
    /// `Errno::NOSPC` if the window is larger than the room.
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
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let place = std::ptr::with_exposed_provenance_mut(addresses.start);
        // SAFETY: the caller guarantees that it owns the mappings in this range and that no code
        // uses them.
        unsafe { mmap_anonymous(place, addresses.len(), ProtFlags::empty(), flags)? };
        let offset = self.next_offset(gap);
        let count = self.windows.count.load(Relaxed);
        let window = &self.windows.list[count];
        window.offset.store(offset, Relaxed);
        window.address.store(addresses.start, Relaxed);
        window.bytes.store(addresses.len(), Relaxed);
        window.is_executable.store(is_executable, Relaxed);
        self.windows.count.store(count + 1, Release);
        let range = offset..offset + addresses.len();
        // After `mlockall(MCL_FUTURE)` a new mapping is locked.
        let _refused = self.unlock(range.clone());
        self.keep_pages_small_in(range);
        Ok(())
    }
}
