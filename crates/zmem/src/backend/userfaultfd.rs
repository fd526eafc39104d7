//! The backend that uses the kernel's userfaultfd: an absent block has no pages, and the kernel
//! reports an access to such a block. Mappings never change. A block in probation is in the
//! *staging* area at the same offset. If the kernel can't move pages, the block is write-protected
//! in place.

use super::answers::{ANSWERS, Answers};
use super::staging::Staging;
use super::{Backend, Data, ForkResult, undone};
use crate::error::refused;
use crate::memory::Managed;
use crate::policy::FAULT_THREADS_MAX;
use crate::uffd::{CanMove, Delivery, Fault, Uffd};
use crate::{Fork, processors};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

#[derive(Debug)]
pub(crate) struct Userfaultfd {
    uffd: Uffd,
    /// The area to which pages in probation are moved, or `None` if the kernel can't move pages.
    staging: Option<Staging>,
    fork: Fork,
    /// An index into [`ANSWERS`]. The index changes in a child of fork.
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
        let answers = match delivery {
            Delivery::Messages => Answers::Threads,
            Delivery::Signal => Answers::Toucher,
        };
        let answers = AtomicU8::new(answers as u8);
        Ok(Userfaultfd { uffd, staging: staging.transpose()?, fork, answers })
    }

    fn answers(&self) -> Answers {
        ANSWERS[usize::from(self.answers.load(Relaxed))]
    }

    /// Returns whether this process manages the region.
    fn is_managed(&self) -> bool {
        matches!(self.answers(), Answers::Threads | Answers::Toucher)
    }

    fn register(&self, memory: &Managed) -> Result<(), Errno> {
        self.uffd.register(memory)?;
        self.staging.as_ref().map_or(Ok(()), |staging| self.uffd.register_quiet(&staging.0))
    }
}

impl Backend for Userfaultfd {
    fn describe(&self) -> &'static str {
        self.answers().describe(self.staging.is_some())
    }

    fn opens_first(&self) -> bool {
        false
    }

    fn mappings_max(&self, _: usize) -> usize {
        0
    }

    fn open_chunk(&self, _: &Managed, _: Range<usize>) -> Result<(), Errno> {
        Ok(())
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
            Some(staging) => staging.0.copy_out(at, buf),
            None if memory.read(at, buf).is_ok() => {}
            None => {
                let page = page::page_size();
                for (nth, part) in buf.chunks_mut(page).enumerate() {
                    match memory.read_protected(at + nth * page, part) {
                        // The page never existed, or was dropped.
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
                // The existing page has not changed since the block was closed.
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
        memory.clear(range);
        Ok(())
    }

    fn probe(&self) -> Result<(), Errno> {
        // The kernel's features were checked when the descriptor was opened.
        Ok(())
    }

    fn begin(&self, memory: &Managed) -> Result<(), Errno> {
        memory.open(0..memory.bytes())?;
        if self.fork == Fork::Default {
            memory.set_inherited(false)?;
            self.staging.as_ref().map_or(Ok(()), |staging| staging.0.set_inherited(false))?;
        }
        self.register(memory)
    }

    fn end(&self, memory: &Managed) -> Result<(), Errno> {
        let unregistered = self.uffd.unregister(memory);
        memory.set_inherited(true).and(unregistered)
    }

    fn fill_holes(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        self.uffd.fill_holes(memory, range)
    }

    fn threads(&self) -> usize {
        if self.answers() == Answers::Threads { processors().min(FAULT_THREADS_MAX) } else { 0 }
    }

    fn file(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.uffd.file()
    }

    fn next_fault(&self) -> Result<Option<Fault>, Errno> {
        self.uffd.next_fault()
    }

    fn wake(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        self.uffd.wake(memory, range)
    }

    fn is_whole_over_forks(&self) -> bool {
        self.fork == Fork::Copied && self.is_managed()
    }

    fn in_child(&self, memory: &Managed) -> ForkResult {
        if !self.is_managed() {
            // The parent was already a child that does not manage the region.
            return ForkResult::Copy;
        }
        let can_move = if self.staging.is_some() { CanMove::Yes } else { CanMove::No };
        let begins_again =
            || self.uffd.open_again(can_move).and_then(|()| self.register(memory)).is_ok();
        let (answers, fork_result) = match self.fork {
            Fork::Default => (Answers::LeftOut, ForkResult::Nothing),
            // The fault threads exist only in the parent, so a faulting thread of the child handles
            // the fault itself.
            Fork::Copied if begins_again() => (Answers::Toucher, ForkResult::Copy),
            Fork::Copied => (Answers::Nothing, ForkResult::Plain),
        };
        if fork_result != ForkResult::Copy {
            self.uffd.close();
        }
        self.answers.store(answers as u8, Relaxed);
        if fork_result == ForkResult::Nothing {
            let staging = self.staging.as_ref().map_or(Ok(()), |staging| staging.0.keep_place());
            if let Err(errno) = memory.keep_place().and(staging) {
                refused("a child has other memory where a region was", errno);
            }
        }
        fork_result
    }
}
