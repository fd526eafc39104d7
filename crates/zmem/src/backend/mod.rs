//! The backends, which mark blocks as absent and make them accessible again. Only the pager calls
//! them.
//!
//! All ranges are byte offsets in the region. The ranges contain blocks that the caller owns
//! (zm-S1). After each call, the memory satisfies zm-S2 for the state that the caller publishes
//! next.

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

/// Returns `errno`, the error of an attempt to close blocks, which may have closed some of them.
/// `undo` is the result of opening the blocks again. Aborts the process if `undo` is an error.
fn undone(errno: Errno, undo: Result<(), Errno>) -> Errno {
    undo.unwrap_or_else(|errno| refused("memory can't be opened again", errno));
    errno
}

/// The location of the data of owned blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// The data are at the blocks' addresses and accessible, like the data of resident blocks.
    Open,
    /// `close` moved the data elsewhere, or protected them at the blocks' addresses.
    Closed,
    /// `close` left the data at the blocks' addresses, and `show` then made them readable.
    Shown,
}

/// The part of a region that a child of fork has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkResult {
    /// A copy that is still managed.
    Copy,
    /// A copy that is entirely resident and not managed.
    Plain,
    /// No memory: an access ends the child.
    Nothing,
}

/// A mechanism that marks memory, so that an access faults, and fills memory, so that no thread
/// sees partial contents.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Returns the backend's name, a colon, and a description of how the backend works and how
    /// system calls behave.
    fn describe(&self) -> &'static str;

    /// Returns the largest number of mappings that the marks of this number of blocks may need.
    fn mappings_max(&self, _blocks: usize) -> usize {
        0
    }

    /// Prepares a chunk that was never touched, so that each of its blocks can be opened
    /// separately.
    fn open_chunk(&self, _memory: &Managed, _chunk: Range<usize>) -> Result<(), Errno> {
        Ok(())
    }

    /// Closes a chunk whose blocks are all absent, so that the chunk needs no page tables. If this
    /// function fails, the chunk still counts as closed, and the next call for this chunk is
    /// `open_chunk`.
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

    /// Makes accesses to resident blocks fault, but keeps the data. After an error, the blocks are
    /// accessible again.
    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Makes closed blocks readable and writable again.
    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Copies data of closed blocks to `buf`, beginning at the region's offset `at`.
    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno>;

    /// Makes closed blocks readable in place, after `read` failed.
    fn show(&self, _memory: &Managed, _range: Range<usize>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Drops the pages of blocks, and marks the blocks. `from` is the location of their data.
    fn drop_pages(&self, memory: &Managed, range: Range<usize>, from: Data) -> Result<(), Errno>;

    /// Makes blocks readable and writable again, with `data`, after a `drop_pages` that failed and
    /// dropped only some of their pages.
    fn put_back(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        self.fill(memory, range, data)
    }

    /// Does the same as `put_back`, but the blocks read as zeros afterwards.
    fn put_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        const ZEROS: &[u8] = &[0; SLOT_BYTES << ORDER_MAX];
        self.put_back(memory, range.clone(), &ZEROS[..range.len()])
    }

    /// Prepares the memory after its pager was added to the registry. The program does not use the
    /// memory yet.
    fn begin(&self, _memory: &Managed) -> Result<(), Errno> {
        Ok(())
    }

    /// Stops managing `memory`. All of it is resident and belongs to the program again.
    fn end(&self, _memory: &Managed) -> Result<(), Errno> {
        Ok(())
    }

    /// Returns the number of threads that handle faults, or 0 if no such threads are needed.
    fn threads(&self) -> usize {
        0
    }

    /// Returns the userfaultfd, if the backend uses one. Without a userfaultfd, the only running
    /// thread may open a block before it writes the block's data, which is cheaper than `fill`.
    fn uffd(&self) -> Option<&Uffd> {
        None
    }

    /// Returns whether all blocks must be resident before a fork.
    fn is_whole_over_forks(&self) -> bool {
        false
    }

    /// Prepares the backend in a child of fork, while the child has only one thread.
    fn in_child(&self, _memory: &Managed) {}

    /// Returns the part of the region that this process has.
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

/// The descriptions of the backends that an arena can have. Each consists of the backend's name, a
/// colon, and the reason for the choice.
pub const ARENA_BACKENDS: [&str; 5] = [GUARDS, NO_GUARDS, MAPPINGS, NO_MEMORY_FILE, REMAP];

/// Creates a backend for a region whose memory is `memory`.
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

/// Tries each operation on a page that is mapped only for this test, because the kernel may refuse
/// some operations to this process.
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
