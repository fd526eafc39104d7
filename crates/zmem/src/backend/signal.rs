//! The backend that marks blocks by guards in page tables, or by PROT_NONE mappings. An access to a
//! marked block raises SIGSEGV, which the faulting thread handles. The process needs no privilege.

use super::{Backend, Data, undone};
use crate::memory::Managed;
use crate::memory::pages::{self, guard, unguard};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::OnceLock;

/// The mechanism that makes an access to an absent block fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Guards,
    Mappings,
    /// PROT_NONE mappings, without /proc/self/mem. A block is filled by moving prepared pages to
    /// its address, and a block in probation stays readable.
    Moves,
}

#[derive(Debug)]
pub(crate) struct Signal {
    marks: Marks,
    name: &'static str,
    /// Memory in which the contents of blocks are prepared. This memory is mapped at once if
    /// `marks` is `Moves`, otherwise when a write through /proc/self/mem first fails.
    beside: OnceLock<Managed>,
}

impl Signal {
    pub(crate) fn new(marks: Marks, name: &'static str, memory: &Managed) -> Result<Self, Errno> {
        let beside = OnceLock::new();
        if marks == Marks::Moves {
            let _first = beside.set(Managed::map_beside(memory.bytes())?);
            // The kernel charges this process for `beside`, and later for the open region. This
            // second mapping of the region's size tests whether the kernel permits both charges.
            drop(Managed::map_beside(memory.bytes())?);
        }
        Ok(Signal { marks, name, beside })
    }

    /// Fills blocks by moving prepared pages to the blocks' addresses.
    fn move_in(&self, memory: &Managed, at: usize, data: &[u8]) -> Result<(), Errno> {
        let beside = match self.beside.get() {
            Some(beside) => beside,
            None => {
                let beside = Managed::map_beside(memory.bytes())?;
                self.beside.get_or_init(|| beside)
            }
        };
        pages::place(memory, beside, at, data)
    }
}

impl Backend for Signal {
    fn describe(&self) -> &'static str {
        self.name
    }

    fn mappings_max(&self, blocks: usize) -> usize {
        match self.marks {
            Marks::Guards => 0,
            Marks::Mappings => blocks,
            Marks::Moves => blocks + 1,
        }
    }

    fn open_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        if self.marks != Marks::Guards {
            return Ok(());
        }
        guard(memory, chunk.clone())?;
        memory.open(chunk)
    }

    fn close_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        memory.close(chunk.clone())?;
        match self.marks {
            Marks::Guards => unguard(memory, chunk.clone())?,
            Marks::Mappings => {}
            Marks::Moves => {
                self.beside.get().map_or(Ok(()), |beside| beside.drop_pages(chunk.clone()))?;
            }
        }
        memory.drop_pages(chunk)
    }

    /// With `Moves`, a block also needs page tables in `beside`, where its contents are prepared.
    fn places(&self) -> usize {
        if self.marks == Marks::Moves { 2 } else { 1 }
    }

    fn fill_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        match self.marks {
            Marks::Guards => unguard(memory, range),
            Marks::Mappings | Marks::Moves => memory.open(range),
        }
    }

    fn fill(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        match self.marks {
            Marks::Guards => {
                memory.close(range.clone())?;
                unguard(memory, range.clone())?;
            }
            Marks::Mappings => {}
            Marks::Moves => return self.move_in(memory, range.start, data),
        }
        match pages::write(memory, range.start, data) {
            Ok(()) => memory.open(range),
            Err(_) => self.move_in(memory, range.start, data),
        }
    }

    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        let closed = match self.marks {
            Marks::Moves => memory.protect_writes(range.clone()),
            Marks::Guards | Marks::Mappings => memory.close(range.clone()),
        };
        closed.map_err(|errno| undone(errno, memory.open(range)))
    }

    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.open(range)
    }

    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        if self.marks == Marks::Moves {
            pages::read_open(memory, at, buf);
            return Ok(());
        }
        pages::read(memory, at, buf)
    }

    fn show(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.protect_writes(range)
    }

    fn drop_pages(&self, memory: &Managed, range: Range<usize>, from: Data) -> Result<(), Errno> {
        if self.marks != Marks::Guards {
            memory.close(range.clone())?;
            return memory.drop_pages(range);
        }
        // The kernel first drops pages and then sets guards. If the block were readable between
        // these two steps, a thread could read zeros.
        if from == Data::Shown {
            memory.close(range.clone())?;
        }
        guard(memory, range.clone())?;
        if from == Data::Open { Ok(()) } else { memory.open(range) }
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use std::ptr::null_mut;
    use testkit::child::in_child;
    use testkit::mappings_max;

    /// Creates mappings until the process can create only one more.
    fn take_mappings() {
        let (page, pages) = (page::page_size(), 2 * mappings_max());
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the address. No code accesses the mapping.
        let start = unsafe { libc::mmap(null_mut(), page * pages, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let open = |nth: usize, protection| {
            // SAFETY: the range is part of the new mapping.
            unsafe { libc::mprotect(start.byte_add(nth * page), page, protection) == 0 }
        };
        let taken = (1..pages).step_by(2).take_while(|nth| open(*nth, libc::PROT_READ)).count();
        // The first call joins two or three mappings, and the second call splits a mapping.
        assert!(open(2 * taken - 1, libc::PROT_NONE));
        assert!(open(pages - 1, libc::PROT_READ) || taken == 0);
    }

    #[test]
    fn what_can_not_be_closed_in_whole_stays_open() {
        in_child(|| {
            let page = page::page_size();
            let memory = Managed::map(16 * page, page).unwrap();
            memory.open(0..memory.bytes()).unwrap();
            // SAFETY: the call changes no data.
            let apart = unsafe {
                let start = memory.start().as_ptr().add(6 * page);
                libc::madvise(start.cast(), 2 * page, libc::MADV_DONTDUMP)
            };
            assert_eq!(apart, 0);
            let backend = Signal::new(Marks::Mappings, "", &memory).unwrap();
            take_mappings();
            // The range lies in three mappings, of which the first and the last must be split.
            let refused = backend.close(&memory, 4 * page..12 * page);
            assert_eq!(refused, Err(Errno::NOMEM));
            pages::clear(&memory, 0..memory.bytes());
        });
    }
}
