//! The backend that marks blocks by guards in page tables, or by PROT_NONE mappings. An access to a
//! marked block raises SIGSEGV, which the faulting thread handles. No privilege is needed.

use super::{Backend, Data, undone};
use crate::memory::{Managed, table_reach};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::OnceLock;

/// The mechanism that makes an access to an absent block fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Guards,
    Mappings,
}

#[derive(Debug)]
pub(crate) struct Signal {
    pub(crate) marks: Marks,
    pub(crate) name: &'static str,
    pub(crate) beside: Beside,
}

impl Backend for Signal {
    fn describe(&self) -> &'static str {
        self.name
    }

    fn mappings_max(&self, blocks: usize) -> usize {
        match self.marks {
            Marks::Guards => 0,
            Marks::Mappings => blocks,
        }
    }

    fn open_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        match self.marks {
            Marks::Guards => {
                memory.guard(chunk.clone())?;
                memory.open(chunk)
            }
            Marks::Mappings => Ok(()),
        }
    }

    fn close_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        memory.close(chunk.clone())?;
        if self.marks == Marks::Guards {
            memory.unguard(chunk.clone())?;
        }
        memory.drop_pages(chunk)
    }

    fn fill_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        match self.marks {
            Marks::Guards => memory.unguard(range),
            Marks::Mappings => memory.open(range),
        }
    }

    fn fill(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        if self.marks == Marks::Guards {
            memory.close(range.clone())?;
            memory.unguard(range.clone())?;
        }
        match memory.write(range.start, data) {
            Ok(()) => memory.open(range),
            Err(_) => self.beside.fill(memory, range, data),
        }
    }

    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.close(range.clone()).map_err(|errno| undone(errno, memory.open(range)))
    }

    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.open(range)
    }

    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        memory.read(at, buf)
    }

    fn show(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.protect_writes(range)
    }

    fn drop_pages(&self, memory: &Managed, range: Range<usize>, from: Data) -> Result<(), Errno> {
        match self.marks {
            Marks::Guards => {
                // The kernel drops pages before it sets guards. Between the two steps, a read of an
                // open block would return zeros.
                if from == Data::Shown {
                    memory.close(range.clone())?;
                }
                memory.guard(range.clone())?;
                if from == Data::Open { Ok(()) } else { memory.open(range) }
            }
            Marks::Mappings => {
                memory.close(range.clone())?;
                memory.drop_pages(range)
            }
        }
    }
}

/// The backend that uses SIGSEGV and needs no /proc/self/mem.
#[derive(Debug)]
pub(crate) struct SignalRemap {
    beside: Beside,
    name: &'static str,
}

/// Maps the memory in which blocks of a region are prepared.
fn map_beside(memory: &Managed) -> Result<Managed, Errno> {
    // The alignment gives each chunk its own page tables in the new memory.
    let staged = Managed::map(memory.bytes(), table_reach())?;
    staged.open(0..staged.bytes())?;
    Ok(staged)
}

impl SignalRemap {
    pub(crate) fn new(memory: &Managed, name: &'static str) -> Result<Self, Errno> {
        let staged = map_beside(memory)?;
        // When the whole region is open, the kernel charges as many bytes for the region as for the
        // first mapping. The second mapping checks that the kernel permits both charges.
        drop(map_beside(memory)?);
        Ok(SignalRemap { beside: Beside(staged.into()), name })
    }
}

/// The memory in which blocks are prepared. If the region was created with /proc/self/mem, this
/// memory is mapped only if the kernel refuses that file later.
#[derive(Debug, Default)]
pub(crate) struct Beside(OnceLock<Managed>);

impl Beside {
    /// See [`Backend::fill`].
    pub(crate) fn fill(
        &self,
        memory: &Managed,
        range: Range<usize>,
        data: &[u8],
    ) -> Result<(), Errno> {
        let staged = match self.0.get() {
            Some(staged) => staged,
            None => {
                let staged = map_beside(memory)?;
                self.0.get_or_init(|| staged)
            }
        };
        staged.stage(range.start, data);
        memory.place_from(staged, range)
    }
}

impl Backend for SignalRemap {
    fn describe(&self) -> &'static str {
        self.name
    }

    fn mappings_max(&self, blocks: usize) -> usize {
        blocks + 1
    }

    fn open_chunk(&self, _memory: &Managed, _chunk: Range<usize>) -> Result<(), Errno> {
        Ok(())
    }

    fn close_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        self.beside.0.get().map_or(Ok(()), |staged| staged.drop_pages(chunk.clone()))?;
        memory.drop_pages(chunk)
    }

    /// The memory in which a block is prepared has page tables, too.
    fn places(&self) -> usize {
        2
    }

    fn fill_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.open(range)
    }

    fn fill(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        self.beside.fill(memory, range, data)
    }

    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.protect_writes(range.clone()).map_err(|errno| undone(errno, memory.open(range)))
    }

    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.open(range)
    }

    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        memory.read_open(at, buf);
        Ok(())
    }

    fn drop_pages(&self, memory: &Managed, range: Range<usize>, _: Data) -> Result<(), Errno> {
        memory.close(range.clone())?;
        memory.drop_pages(range)
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use std::ptr::null_mut;
    use testkit::child::in_child;
    use testkit::mappings_max;

    /// Creates mappings until the process has one mapping fewer than the maximum.
    fn take_mappings() {
        let (page, pages) = (page::page_size(), 2 * mappings_max());
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the address; no code accesses the mapping.
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
            let (name, beside) = ("", Beside::default());
            let backend = Signal { marks: Marks::Mappings, name, beside };
            take_mappings();
            // The range lies in three mappings, and both ends must be split.
            let refused = backend.close(&memory, 4 * page..12 * page);
            assert_eq!(refused, Err(Errno::NOMEM));
            memory.clear(0..memory.bytes());
        });
    }
}
