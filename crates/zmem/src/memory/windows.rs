//! The windows of managed memory. A window is a range of addresses that corresponds to a range of
//! offsets in the managed memory.
//!
//! ```text
//!   offsets     | first: mapped with the memory | gap | second | gap | third | gap | room ... |
//!   addresses   | start ..                            | anywhere, once it is added
//! ```
//! A window exists as long as the managed memory exists (zm-W1). Offsets in a gap between two
//! windows have no address (zm-W2).

use crate::policy::WINDOWS_MAX;
use rustix::mm::MprotectFlags;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct Windows {
    start: NonNull<u8>,
    /// The size in bytes of the first window, which begins at the address `start` and at the offset
    /// 0.
    own: usize,
    /// The size in bytes of the range of offsets that contains all windows and gaps. The offsets
    /// from `own` on are for further windows and the gaps before them.
    pub(super) bytes: usize,
    /// The windows after the first, in the order in which they were added.
    list: [OnceLock<Window>; WINDOWS_MAX],
}

#[derive(Debug)]
struct Window {
    offsets: Range<usize>,
    addresses: Range<usize>,
    is_executable: bool,
}

impl Windows {
    pub(super) fn new(start: NonNull<u8>, own: usize) -> Self {
        Windows { start, own, bytes: own, list: Default::default() }
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

    fn list(&self) -> impl Iterator<Item = &Window> {
        self.list.iter().map_while(OnceLock::get)
    }

    /// Returns the window that contains a whole range of offsets, if there is one. Does not search
    /// the first window.
    fn find(&self, range: &Range<usize>) -> Option<&Window> {
        self.list()
            .find(|Window { offsets, .. }| offsets.start <= range.start && range.end <= offsets.end)
    }

    /// Returns the address at which a range of offsets begins.
    pub(crate) fn address_of(&self, range: &Range<usize>) -> usize {
        self.place(range).0.addr()
    }

    /// Returns the address and the length in bytes of a range of offsets.
    pub(super) fn place(&self, range: &Range<usize>) -> (*mut c_void, usize) {
        assert!(range.start <= range.end, "outside the region");
        if range.end <= self.own {
            return (self.start.as_ptr().wrapping_add(range.start).cast(), range.len());
        }
        let window = self.find(range).expect("outside the region's windows");
        let address = window.addresses.start + (range.start - window.offsets.start);
        (std::ptr::with_exposed_provenance_mut(address), range.len())
    }

    /// Returns the addresses of each window, beginning with the first window.
    pub(crate) fn windows(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let further = self.list().map(|window| window.addresses.clone());
        std::iter::once(self.addresses()).chain(further)
    }

    /// Returns the offset of an address, or `None` if no window contains the address.
    pub(crate) fn offset_of(&self, address: usize) -> Option<usize> {
        let first = self.addresses();
        if first.contains(&address) {
            return Some(address - first.start);
        }
        let window = self.list().find(|window| window.addresses.contains(&address))?;
        Some(window.offsets.start + (address - window.addresses.start))
    }

    /// Returns the part of a range of offsets that lies in the same window as the range's first
    /// offset. If the first offset is in no window, returns the range up to the end of all offsets.
    pub(crate) fn in_window(&self, range: Range<usize>) -> Range<usize> {
        let end = match self.find(&(range.start..range.start)) {
            _ if range.start < self.own => self.own,
            Some(window) => window.offsets.end,
            None => self.bytes,
        };
        range.start..range.end.min(end)
    }

    /// Returns the protection of open blocks in a range.
    pub(super) fn open_flags(&self, range: &Range<usize>) -> MprotectFlags {
        let is_executable = self.find(range).is_some_and(|window| window.is_executable);
        let exec = if is_executable { MprotectFlags::EXEC } else { MprotectFlags::empty() };
        MprotectFlags::READ | MprotectFlags::WRITE | exec
    }

    /// Returns whether an address lies in an executable window.
    pub(crate) fn is_executable(&self, address: usize) -> bool {
        self.offset_of(address)
            .is_some_and(|at| self.open_flags(&(at..at)).contains(MprotectFlags::EXEC))
    }

    /// Returns the first offset of the next window that will be added: a multiple of `gap`, at
    /// least `gap` bytes after the last window.
    fn next_offset(&self, gap: usize) -> usize {
        let last = self.list().last().map_or(self.own, |window| window.offsets.end);
        last.next_multiple_of(gap).saturating_add(gap)
    }

    /// Returns the size in bytes of the largest window that can be added after a gap of `gap`
    /// bytes.
    pub(crate) fn room(&self, gap: usize) -> usize {
        let room = self.bytes.saturating_sub(self.next_offset(gap));
        if self.list().count() < WINDOWS_MAX { room } else { 0 }
    }

    /// Adds a window, and returns the window's offsets. The window is not larger than the result of
    /// `room`. Only one thread at a time adds windows.
    pub(super) fn add(
        &self,
        addresses: &Range<usize>,
        gap: usize,
        is_executable: bool,
    ) -> Range<usize> {
        let offset = self.next_offset(gap);
        let (offsets, addresses) = (offset..offset + addresses.len(), addresses.clone());
        let window = Window { offsets: offsets.clone(), addresses, is_executable };
        let _added = self.list[self.list().count()].set(window);
        offsets
    }
}
