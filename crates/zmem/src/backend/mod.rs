//! The backends. A backend marks blocks, so that accesses to them fault, and makes blocks
//! accessible again.
//!
//! In all functions of a backend, a range consists of byte offsets in the region, and the caller
//! owns the blocks in the range (zm-S1). After the call, the blocks' pages and protection are as
//! zm-S2 requires for the state that the caller publishes next.

mod signal;
mod staging;
mod userfaultfd;

use crate::error::refused;
use crate::mappings::{has_guards, writes_below_protection};
use crate::memory::Managed;
use crate::uffd::{CanMove, Delivery, Uffd};
use crate::{BackendKind, Error, Options};
use rustix::io::Errno;
use signal::{Marks, Signal};
use std::fmt::Debug;
use std::ops::Range;
use userfaultfd::Userfaultfd;
use zram::{ORDER_MAX, SLOT_BYTES};

/// Returns `errno`, the error of an attempt to close blocks. `undo` is the result of the attempt to
/// open the blocks again after this error. Aborts the process if `undo` is an error.
fn undone(errno: Errno, undo: Result<(), Errno>) -> Errno {
    undo.unwrap_or_else(|errno| refused("memory can't be opened again", errno));
    errno
}

/// The location of the data of owned blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// The data are at the blocks' addresses, readable and writable, like the data of resident
    /// blocks.
    Open,
    /// `close` has moved the data away, or protected the data at the blocks' addresses.
    Closed,
    /// The data are at the blocks' addresses, and `show` has made them readable.
    Shown,
}

/// The state of a region in a process. A fork can change this state for the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkResult {
    /// The region is managed.
    Copy,
    /// All blocks are resident, and the region is not managed.
    Plain,
    /// None of the region's memory is mapped in the process, so an access ends the process.
    Nothing,
}

/// A mechanism that makes accesses to absent blocks fault, and fills blocks so that no thread sees
/// partial contents.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Returns the backend's name, a colon, and a description of the backend.
    fn describe(&self) -> &'static str;

    /// Returns the maximum number of mappings that marking `blocks` blocks can require.
    fn mappings_max(&self, _blocks: usize) -> usize {
        0
    }

    /// Prepares a closed chunk so that its blocks can be opened one by one.
    fn open_chunk(&self, _memory: &Managed, _chunk: Range<usize>) -> Result<(), Errno> {
        Ok(())
    }

    /// Closes a chunk whose blocks are all absent, so that the chunk needs no page tables. Even if
    /// the call fails, the chunk is treated as closed.
    fn close_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        memory.drop_pages(chunk)
    }

    /// Returns the number of address ranges in which a block may need page tables.
    fn places(&self) -> usize {
        1
    }

    /// Makes absent blocks readable and writable, filled with zeros.
    fn fill_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Fills marked blocks with `data`. Other threads never see partly filled blocks.
    fn fill(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno>;

    /// Makes accesses (with some backends only writes) to resident blocks fault, and keeps the
    /// blocks' data. If the call fails, the blocks are accessible again.
    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Makes closed blocks readable and writable again.
    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Copies the data of closed blocks to `buf`, beginning at the region's offset `at`.
    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno>;

    /// Makes closed blocks readable at their addresses. Called if `read` fails.
    fn show(&self, _memory: &Managed, _range: Range<usize>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Drops the pages of blocks, and marks the blocks. `from` is the location of the blocks' data.
    fn drop_pages(&self, memory: &Managed, range: Range<usize>, from: Data) -> Result<(), Errno>;

    /// After `drop_pages` has failed, fills blocks with `data`, and makes them readable and
    /// writable. The failed call may have dropped some of the blocks' pages.
    fn put_back(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        self.fill(memory, range, data)
    }

    /// After `drop_pages` has failed, fills blocks with zeros, and makes them readable and
    /// writable.
    fn put_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        const ZEROS: &[u8] = &[0; SLOT_BYTES << ORDER_MAX];
        self.put_back(memory, range.clone(), &ZEROS[..range.len()])
    }

    /// Prepares the memory before the program uses it. The registry already contains the pager.
    fn begin(&self, _memory: &Managed) -> Result<(), Errno> {
        Ok(())
    }

    /// Stops managing `memory`, which is completely resident and belongs to the program again.
    fn end(&self, _memory: &Managed) -> Result<(), Errno> {
        Ok(())
    }

    /// Returns the number of threads that handle faults, or 0 if no such threads are needed.
    fn threads(&self) -> usize {
        0
    }

    /// Returns the userfaultfd, if the backend has one. Without a userfaultfd, the only running
    /// thread of a process is allowed to open a block before it writes the block's data, which is
    /// faster than `fill`.
    fn uffd(&self) -> Option<&Uffd> {
        None
    }

    /// Returns whether all blocks must be filled before a fork.
    fn is_whole_over_forks(&self) -> bool {
        false
    }

    /// Adapts the backend to a child of fork, while the child has only one thread.
    fn in_child(&self, _memory: &Managed) {}

    /// Returns the state of the region in this process.
    fn fork_result(&self) -> ForkResult {
        ForkResult::Copy
    }
}

const GUARDS: &str = "signal: marks of page tables; needs no right";
const NO_GUARDS: &str =
    "signal-mappings: a mapping for each run of marked blocks; the system has no guards";
const MAPPINGS: &str = "signal-mappings: a mapping for each run of marked blocks; asked for";
const NO_MEMORY_FILE: &str =
    "signal-remap: blocks are moved to their places; /proc/self/mem is refused";
const REMAP: &str = "signal-remap: blocks are moved to their places; asked for";

/// The descriptions of the backends that an arena can have: for each backend its name, a colon, and
/// the reason for choosing it.
pub const ARENA_BACKENDS: [&str; 5] = [GUARDS, NO_GUARDS, MAPPINGS, NO_MEMORY_FILE, REMAP];

pub(crate) fn choose(options: &Options, memory: &Managed) -> Result<Box<dyn Backend>, Error> {
    use BackendKind::{UserfaultfdProtected, UserfaultfdSigbus, UserfaultfdSigbusProtected};
    if options.backend.is_signal() {
        return signal(options.backend, memory);
    }
    let protects = matches!(options.backend, UserfaultfdProtected | UserfaultfdSigbusProtected);
    let wants_move = if protects { CanMove::No } else { CanMove::Yes };
    let open = |delivery| Userfaultfd::new(memory.bytes(), delivery, wants_move, options.fork);
    let opened = match options.backend {
        UserfaultfdSigbus | UserfaultfdSigbusProtected => open(Delivery::Signal),
        _ => open(Delivery::Messages).or_else(|_| open(Delivery::Signal)),
    };
    let refused = |errno: Errno| Error::Userfaultfd { errno: errno.raw_os_error() };
    Ok(Box::new(opened.map_err(refused)?))
}

fn signal(kind: BackendKind, memory: &Managed) -> Result<Box<dyn Backend>, Error> {
    let (marks, name) = match (kind, writes_below_protection()) {
        (BackendKind::SignalRemap, _) => (Marks::Moves, REMAP),
        (BackendKind::SignalMappings, Ok(())) => (Marks::Mappings, MAPPINGS),
        (BackendKind::SignalMappings, Err(errno)) => {
            return Err(Error::ProcessMemory { errno: errno.raw_os_error() });
        }
        (_, Err(_)) => (Marks::Moves, NO_MEMORY_FILE),
        (_, Ok(())) if has_guards() => (Marks::Guards, GUARDS),
        (_, Ok(())) => (Marks::Mappings, NO_GUARDS),
    };
    let backend = Signal::new(marks, name, memory);
    let backend = backend.map_err(Error::system("address space for blocks"))?;
    probe(&backend).map_err(Error::system("what this backend does with memory"))?;
    Ok(Box::new(backend))
}

/// Tries each operation of the backend on a new page, and returns the error if the kernel refuses
/// one.
fn probe(backend: &Signal) -> Result<(), Errno> {
    let page = page::page_size();
    let (memory, range) = (Managed::map(page, page)?, 0..page);
    let (data, mut seen) = (vec![7; page], vec![0; page]);
    backend.open_chunk(&memory, range.clone())?;
    backend.fill(&memory, range.clone(), &data)?;
    backend.close(&memory, range.clone())?;
    backend.read(&memory, 0, &mut seen)?;
    backend.reopen(&memory, range.clone())?;
    backend.drop_pages(&memory, range, Data::Open)?;
    if seen == data { Ok(()) } else { Err(Errno::IO) }
}
