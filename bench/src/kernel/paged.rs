//! Memory of this process that the kernel pages out on request.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut, Range};
use std::ptr::{NonNull, null_mut};
use std::slice::{from_raw_parts, from_raw_parts_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::Error;

/// The alignment of the memory, which is the size of the largest folio.
const ALIGN: usize = 2 << 20;

/// Private anonymous memory, zeros at first.
#[derive(Debug)]
pub struct PagedMemory {
    mapping: NonNull<u8>,
    mapped: usize,
    start: usize,
    len: usize,
}

// SAFETY: this value owns the mapping exclusively, so any thread can use and unmap it.
unsafe impl Send for PagedMemory {}
// SAFETY: through shared references, the memory is only read or paged out, which keeps its
// contents.
unsafe impl Sync for PagedMemory {}

impl PagedMemory {
    /// Maps `len` bytes. If `folios` is true, the kernel backs the memory with folios where it can.
    ///
    /// # Errors
    /// Fails if the system has not enough memory.
    pub fn new(len: usize, folios: bool) -> Result<PagedMemory, Error> {
        let mapped = len + ALIGN;
        let refused = |_| Error::Setup {
            reason: format!("no memory could be mapped for {len} bytes"),
            remedy: "raise ulimit -v, or free memory",
        };
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: this is a new mapping at an address that the kernel chooses, so it overlaps
        // nothing.
        let base = unsafe { mmap_anonymous(null_mut(), mapped, prot, flags) }.map_err(refused)?;
        let Some(mapping) = NonNull::new(base.cast::<u8>()) else {
            unreachable!("the system maps nothing at address 0 unless it is asked to")
        };
        let start = base.addr().next_multiple_of(ALIGN) - base.addr();
        let memory = PagedMemory { mapping, mapped, start, len };
        memory.advise(0..len, if folios { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage });
        Ok(memory)
    }

    /// Pages out `part`, which consists of whole pages. A page that the kernel can't page out stays
    /// resident.
    pub fn page_out(&self, part: Range<usize>) {
        self.advise(part, Advice::LinuxPageOut);
    }

    /// Returns the number of resident bytes.
    pub fn resident(&self) -> usize {
        let pages = self.len.div_ceil(page::page_size());
        let mut states = vec![0_u8; pages];
        // SAFETY: the range is memory of this mapping, and `states` has a byte for each of its
        // pages.
        let done = unsafe {
            libc::mincore(self.as_ptr().cast_mut().cast(), self.len, states.as_mut_ptr())
        };
        if done != 0 {
            return self.len;
        }
        states.iter().filter(|&state| state & 1 == 1).count() * page::page_size()
    }

    /// Passes the madvise() value `advice` for `part` to the kernel. The call must never change the
    /// contents of the memory.
    fn advise(&self, part: Range<usize>, advice: Advice) {
        let part = &self[part];
        // SAFETY: the range is memory of this mapping, whose contents the call does not change.
        let _no_such_advice =
            unsafe { madvise(part.as_ptr().cast_mut().cast(), part.len(), advice) };
    }
}

impl Deref for PagedMemory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes from `start`, and exists as long as this value.
        unsafe { from_raw_parts(self.mapping.as_ptr().add(self.start), self.len) }
    }
}

impl DerefMut for PagedMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `len` bytes from `start` and outlives the exclusive borrow of
        // this value.
        unsafe { from_raw_parts_mut(self.mapping.as_ptr().add(self.start), self.len) }
    }
}

impl Drop for PagedMemory {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and during drop no borrow of it exists.
        let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
        debug_assert!(unmapped.is_ok());
    }
}
