//! The backend that uses a userfaultfd. An absent block has no pages, and the kernel reports each
//! access to an absent block. Mappings never change. The pages of a block in probation are in the
//! *staging* area, at the block's offset. If the kernel can't move pages, blocks in probation are
//! write-protected in the region.

use super::staging::Staging;
use super::{Backend, Data, ForkResult, undone};
use crate::error::refused;
use crate::memory::Managed;
use crate::memory::pages::{self, set_inherited};
use crate::policy::FAULT_THREADS_MAX;
use crate::uffd::{CanMove, Delivery, QUIET, REPORTED, Uffd};
use crate::{Fork, processors};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The threads that handle the faults of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Threads,
    /// The faulting thread, in a handler of SIGBUS.
    Toucher,
    /// No thread. This process is a child that could not open a userfaultfd, so all blocks stay
    /// resident.
    Nothing,
    /// No thread. This child does not have the region.
    LeftOut,
}

const ANSWERS: [Answers; 4] =
    [Answers::Threads, Answers::Toucher, Answers::Nothing, Answers::LeftOut];

impl Answers {
    /// Returns the result of [`Backend::describe`]. `are_moved` is true if the kernel can move
    /// pages.
    fn describe(self, are_moved: bool) -> &'static str {
        let both = match self {
            Answers::Threads => [
                "userfaultfd: answered by threads, with write protection: \
                 system calls may touch what is absent",
                "userfaultfd: answered by threads, with pages moved: \
                 system calls may touch what is absent",
            ],
            Answers::Toucher => [
                "userfaultfd-sigbus: answered by SIGBUS, with write protection: \
                 system calls on what is absent fail",
                "userfaultfd-sigbus: answered by SIGBUS, with pages moved: \
                 system calls on what is absent fail",
            ],
            Answers::Nothing => {
                ["none: a child that may not have a userfaultfd, where all is resident"; 2]
            }
            Answers::LeftOut => ["none: the region was left to the parent"; 2],
        };
        both[usize::from(are_moved)]
    }
}

#[derive(Debug)]
pub(crate) struct Userfaultfd {
    uffd: Uffd,
    /// The staging area, or `None` if the kernel can't move pages.
    staging: Option<Staging>,
    fork: Fork,
    /// An index into [`ANSWERS`], which changes in a child of fork.
    answers: AtomicU8,
}

impl Userfaultfd {
    /// Creates the backend for a region of `bytes` bytes, if the kernel permits a userfaultfd.
    pub(crate) fn new(
        bytes: usize,
        delivery: Delivery,
        wants_move: CanMove,
        fork: Fork,
    ) -> Result<Self, Errno> {
        let (uffd, can_move) = Uffd::open(delivery, wants_move)?;
        let staging = (can_move == CanMove::Yes).then(|| Staging::new(bytes));
        let has_threads = delivery == Delivery::Messages;
        let answers = if has_threads { Answers::Threads } else { Answers::Toucher };
        let answers = AtomicU8::new(answers as u8);
        Ok(Userfaultfd { uffd, staging: staging.transpose()?, fork, answers })
    }

    fn answers(&self) -> Answers {
        ANSWERS[usize::from(self.answers.load(Relaxed))]
    }

    fn register(&self, memory: &Managed) -> Result<(), Errno> {
        self.uffd.register(memory, REPORTED)?;
        self.staging.as_ref().map_or(Ok(()), |staging| self.uffd.register(&staging.0, QUIET))
    }
}

impl Backend for Userfaultfd {
    fn describe(&self) -> &'static str {
        self.answers().describe(self.staging.is_some())
    }

    fn close_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        self.staging.as_ref().map_or(Ok(()), |staging| staging.0.drop_pages(chunk.clone()))?;
        memory.drop_pages(chunk)
    }

    fn places(&self) -> usize {
        1 + usize::from(self.staging.is_some())
    }

    fn fill_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        self.uffd.zero(memory, range)
    }

    fn fill(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        self.uffd.copy(memory, range.start, data)
    }

    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        match &self.staging {
            Some(staging) => staging.take(&self.uffd, memory, range),
            None => self
                .uffd
                .protect(memory, range.clone(), true)
                .map_err(|errno| undone(errno, self.uffd.protect(memory, range, false))),
        }
    }

    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        match &self.staging {
            Some(staging) => staging.give_back(&self.uffd, memory, range),
            None => self.uffd.protect(memory, range, false),
        }
    }

    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        match &self.staging {
            Some(staging) => pages::read_open(&staging.0, at, buf),
            None if pages::read(memory, at, buf).is_ok() => {}
            None => {
                let page = page::page_size();
                for (nth, part) in buf.chunks_mut(page).enumerate() {
                    match pages::read_protected(memory, at + nth * page, part) {
                        // The page was never written, or was dropped.
                        Err(Errno::FAULT) => part.fill(0),
                        read => read?,
                    }
                }
            }
        }
        Ok(())
    }

    fn drop_pages(&self, memory: &Managed, range: Range<usize>, from: Data) -> Result<(), Errno> {
        match &self.staging {
            Some(staging) if from == Data::Closed => staging.0.drop_pages(range),
            _ => memory.drop_pages(range),
        }
    }

    fn put_back(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        let page = page::page_size();
        for (nth, part) in data.chunks(page).enumerate() {
            match self.uffd.copy(memory, range.start + nth * page, part) {
                // The page was not dropped, and still has the contents from before the block was
                // closed.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.staging.as_ref().map_or_else(|| self.uffd.protect(memory, range, false), |_| Ok(()))
    }

    fn put_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        self.uffd.fill_holes(memory, range.clone())?;
        if self.staging.is_none() {
            self.uffd.protect(memory, range.clone(), false)?;
        }
        pages::clear(memory, range);
        Ok(())
    }

    fn begin(&self, memory: &Managed) -> Result<(), Errno> {
        memory.open(0..memory.bytes())?;
        if self.fork == Fork::Default {
            set_inherited(memory, false)?;
            self.staging.as_ref().map_or(Ok(()), |staging| set_inherited(&staging.0, false))?;
        }
        self.register(memory)
    }

    fn end(&self, memory: &Managed) -> Result<(), Errno> {
        let unregistered = self.uffd.unregister(memory);
        set_inherited(memory, true).and(unregistered)
    }

    fn threads(&self) -> usize {
        if self.answers() == Answers::Threads { processors().min(FAULT_THREADS_MAX) } else { 0 }
    }

    fn uffd(&self) -> Option<&Uffd> {
        Some(&self.uffd)
    }

    fn is_whole_over_forks(&self) -> bool {
        self.fork == Fork::Copied && self.fork_result() == ForkResult::Copy
    }

    fn in_child(&self, memory: &Managed) {
        if self.fork_result() != ForkResult::Copy {
            // The parent is itself a child of fork, and does not manage the region.
            return;
        }
        let can_move = if self.staging.is_some() { CanMove::Yes } else { CanMove::No };
        let begins_again =
            || self.uffd.open_again(can_move).and_then(|()| self.register(memory)).is_ok();
        let answers = match self.fork {
            Fork::Default => Answers::LeftOut,
            // The fault threads exist only in the parent, so a faulting thread of the child handles
            // the fault itself.
            Fork::Copied if begins_again() => Answers::Toucher,
            Fork::Copied => Answers::Nothing,
        };
        if answers != Answers::Toucher {
            self.uffd.close();
        }
        self.answers.store(answers as u8, Relaxed);
        if answers == Answers::LeftOut {
            let staging = self.staging.as_ref().map_or(Ok(()), |staging| staging.0.keep_place());
            if let Err(errno) = memory.keep_place().and(staging) {
                refused("a child has other memory where a region was", errno);
            }
        }
    }

    fn fork_result(&self) -> ForkResult {
        match self.answers() {
            Answers::Threads | Answers::Toucher => ForkResult::Copy,
            Answers::Nothing => ForkResult::Plain,
            Answers::LeftOut => ForkResult::Nothing,
        }
    }
}
