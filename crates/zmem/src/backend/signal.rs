//! Marks of page tables (guards), or of mappings (PROT_NONE) where the system has no guards. A
//! touch is a SIGSEGV, which the thread that faults answers. No right is needed.

use super::remap::Beside;
use super::{Backend, Data};
use crate::memory::Managed;
use rustix::io::Errno;
use std::ops::Range;

/// What makes a touch of an absent block fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Guards,
    Mappings,
}

/// The backend `signal`.
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

    fn mappings_max(&self, units: usize) -> usize {
        match self.marks {
            Marks::Guards => 0,
            Marks::Mappings => units,
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
        memory.close(range)
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
                // The system drops pages before it sets guards: in between a touch would see zeros.
                if from == Data::Shown {
                    memory.close(range.clone())?;
                }
                memory.guard(range.clone())?;
                memory.open(range)
            }
            Marks::Mappings => {
                memory.close(range.clone())?;
                memory.drop_pages(range)
            }
        }
    }
}
