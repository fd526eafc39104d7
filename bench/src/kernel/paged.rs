//! Memory of this process that the kernel is told to page out.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut, Range};
use std::ptr::{NonNull, null_mut};
use std::slice::{from_raw_parts, from_raw_parts_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::Error;

/// The largest folio begins at a multiple of its size here.
const ALIGN: usize = 2 << 20;

/// Private anonymous memory, zeros at first.
#[derive(Debug)]
pub struct PagedMemory {
    mapping: NonNull<u8>,
    mapped: usize,
    start: usize,
    len: usize,
}

// SAFETY: it owns the mapping, as a box owns its memory.
unsafe impl Send for PagedMemory {}
// SAFETY: shared references only read it.
unsafe impl Sync for PagedMemory {}

impl PagedMemory {
    /// Memory of `len` bytes, in folios where the kernel makes such.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(len: usize, folios: bool) -> Result<PagedMemory, Error> {
        let mapped = len + ALIGN;
        let refused = |_| Error::Setup {
            reason: format!("no memory could be mapped for {len} bytes"),
            remedy: "raise ulimit -v, or free memory",
        };
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at no address that anything else has.
        let base = unsafe { mmap_anonymous(null_mut(), mapped, prot, flags) }.map_err(refused)?;
        let Some(mapping) = NonNull::new(base.cast::<u8>()) else {
            unreachable!("the system maps nothing at address 0 unless it is asked to")
        };
        let start = base.addr().next_multiple_of(ALIGN) - base.addr();
        let memory = PagedMemory { mapping, mapped, start, len };
        memory.advise(0..len, if folios { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage });
        Ok(memory)
    }

    /// Has the kernel page out a part of it, of whole pages. What it can't page out stays.
    pub fn page_out(&self, part: Range<usize>) {
        self.advise(part, Advice::LinuxPageOut);
    }

    /// Bytes of it that lie in memory.
    pub fn resident(&self) -> usize {
        let pages = self.len.div_ceil(page::page_size());
        let mut states = vec![0_u8; pages];
        // SAFETY: it is memory of this mapping, and there is a byte for each of its pages.
        let done = unsafe {
            libc::mincore(self.as_ptr().cast_mut().cast(), self.len, states.as_mut_ptr())
        };
        if done != 0 {
            return self.len;
        }
        states.iter().filter(|&state| state & 1 == 1).count() * page::page_size()
    }

    /// Gives advice that never changes what the memory holds.
    fn advise(&self, part: Range<usize>, advice: Advice) {
        let part = &self[part];
        // SAFETY: it is memory of this mapping, which holds afterwards what it held before.
        let _no_such_advice =
            unsafe { madvise(part.as_ptr().cast_mut().cast(), part.len(), advice) };
    }
}

impl Deref for PagedMemory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has so many bytes from there on, and lives as long as this value.
        unsafe { from_raw_parts(self.mapping.as_ptr().add(self.start), self.len) }
    }
}

impl DerefMut for PagedMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { from_raw_parts_mut(self.mapping.as_ptr().add(self.start), self.len) }
    }
}

impl Drop for PagedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing borrows it any more.
        let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
        debug_assert!(unmapped.is_ok());
    }
}
