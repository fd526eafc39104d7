//! The requests that are sent to the kernel through a userfaultfd.
//!
//! # Safety
//! The numbers and structures of this module follow the kernel's interface, which is the same on
//! all supported processors. Each range lies in [`Managed`] memory. The caller owns the blocks of
//! the range, or has exclusive access to these blocks, as [`memory`](crate::memory) requires.
#![allow(unsafe_code)]

mod open;

pub(crate) use open::{CanMove, Delivery, QUIET, REPORTED};

use crate::descriptor::Descriptor;
use crate::memory::Managed;
use crate::policy::TRIES_MAX;
use open::*;
use rustix::fd::BorrowedFd;
use rustix::fs::fstat;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

/// A fault that a message of the userfaultfd reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) address: usize,
    /// The thread ID of the thread that waits until the fault is handled.
    pub(crate) thread: u32,
}

/// A userfaultfd, held as the word of a `Descriptor`. A child replaces its parent's descriptor.
#[derive(Debug)]
pub(crate) struct Uffd(AtomicU64);

/// The number of bytes of a range that were processed before an error, and the error.
#[derive(Debug)]
pub(crate) struct Short {
    pub(crate) done: usize,
    pub(crate) errno: Errno,
}

fn place(memory: &Managed, range: &Range<usize>) -> Place {
    assert!(range.start <= range.end && range.end <= memory.bytes(), "outside the region");
    let start = memory.addresses().start + range.start;
    Place { start: start as u64, bytes: range.len() as u64 }
}

/// Calls `step` until the whole range is processed, or an error other than EAGAIN occurs. If the
/// kernel refuses the range because it spans several mappings, the range is processed page by page.
fn go_on(
    range: Range<usize>,
    mut step: impl FnMut(Range<usize>) -> (Result<(), Errno>, i64),
) -> Result<(), Short> {
    let (mut done, mut tries, mut longest) = (0, 0, range.len());
    let page = page::page_size();
    while done < range.len() {
        let start = range.start + done;
        let bytes = longest.min(range.end - start);
        let (result, more) = step(start..start + bytes);
        match result {
            Ok(()) => (done, tries) = (done + bytes, 0),
            Err(Errno::AGAIN) if more > 0 => (done, tries) = (done + more as usize, 0),
            Err(Errno::AGAIN) if tries < TRIES_MAX => {
                tries += 1;
                std::thread::yield_now();
            }
            Err(Errno::NOENT | Errno::INVAL) if bytes > page => longest = page,
            Err(errno) => return Err(Short { done, errno }),
        }
    }
    Ok(())
}

impl Uffd {
    /// Opens a userfaultfd. The result also states whether the userfaultfd can move pages.
    pub(crate) fn open(delivery: Delivery, wants_move: CanMove) -> Result<(Self, CanMove), Errno> {
        let (file, can_move) = open_for(delivery, wants_move)?;
        Ok((Uffd(AtomicU64::new(Descriptor::raised(fstat(&file), file).0)), can_move))
    }

    /// In a child, replaces the parent's userfaultfd by a new one.
    pub(crate) fn open_again(&self, wants_move: CanMove) -> Result<(), Errno> {
        self.close();
        let (file, can_move) = open_for(Delivery::Signal, wants_move)?;
        if can_move != wants_move {
            return Err(Errno::NOSYS);
        }
        self.0.store(Descriptor::raised(fstat(&file), file).0, Release);
        Ok(())
    }

    /// Closes the descriptor, unless the program has closed it.
    pub(crate) fn close(&self) {
        Descriptor(self.0.swap(Descriptor::NONE.0, AcqRel)).close();
    }

    /// Returns the descriptor. If the program has closed it, requests through it fail.
    pub(crate) fn file(&self) -> Result<BorrowedFd<'_>, Errno> {
        Descriptor(self.0.load(Acquire)).file().ok_or(Errno::BADF)
    }

    fn ask<T>(&self, request: u64, mut of: T) -> (Result<(), Errno>, T) {
        // SAFETY: callers pass the structure that belongs to the request's number. The ranges in
        // this structure obey the rules in the module's documentation.
        let asked = self.file().and_then(|file| unsafe { ask(file, request, &mut of) });
        (asked, of)
    }

    /// Registers memory. `mode` is `REPORTED` or `QUIET`.
    pub(crate) fn register(&self, memory: &Managed, mode: u64) -> Result<(), Errno> {
        let place = place(memory, &(0..memory.bytes()));
        self.ask(REGISTER, Register { place, mode, calls: 0 }).0
    }

    /// Unregisters memory. Accesses to this memory are no longer reported.
    pub(crate) fn unregister(&self, memory: &Managed) -> Result<(), Errno> {
        self.ask(UNREGISTER, place(memory, &(0..memory.bytes()))).0
    }

    /// Wakes the threads that wait for pages of `range`. The threads repeat their accesses.
    pub(crate) fn wake(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        self.ask(WAKE, place(memory, &range)).0
    }

    /// Fills absent pages with `data`. For other threads, each page is filled atomically.
    pub(crate) fn copy(&self, memory: &Managed, start: usize, data: &[u8]) -> Result<(), Errno> {
        self.copy_from(memory, start..start + data.len(), data.as_ptr().addr())
    }

    /// Fills absent pages with the data at the address `from`.
    pub(crate) fn copy_from(
        &self,
        memory: &Managed,
        range: Range<usize>,
        from: usize,
    ) -> Result<(), Errno> {
        go_on(range.clone(), |part| {
            let Place { start: to, bytes } = place(memory, &part);
            let from = (from + part.start - range.start) as u64;
            let (copied, of) = self.ask(COPY, Transfer { to, from, bytes, mode: NO_WAKE, done: 0 });
            (copied, of.done)
        })
        .map_err(|short| short.errno)
    }

    /// Fills absent pages with zeros.
    pub(crate) fn zero(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        go_on(range, |part| {
            let place = place(memory, &part);
            let (zeroed, of) = self.ask(ZEROPAGE, Zeropage { place, mode: NO_WAKE, done: 0 });
            (zeroed, of.done)
        })
        .map_err(|short| short.errno)
    }

    /// Fills the absent pages of `range` with zeros, and skips all other pages.
    pub(crate) fn fill_holes(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        let page = page::page_size();
        for at in range.step_by(page) {
            match self.zero(memory, at..at + page) {
                // ENOENT means that the region was dropped. The memory is then no longer
                // registered, and absent pages read as zeros.
                Err(Errno::EXIST | Errno::NOENT) | Ok(()) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Moves the pages of `range` from the memory `from` to the same offsets of the memory `to`.
    pub(crate) fn transfer(
        &self,
        from: &Managed,
        to: &Managed,
        range: Range<usize>,
    ) -> Result<(), Short> {
        go_on(range, |part| {
            let (Place { start, bytes }, mode) = (place(to, &part), NO_WAKE | ALLOW_HOLES);
            let from = place(from, &part).start;
            let (moved, of) = self.ask(MOVE, Transfer { to: start, from, bytes, mode, done: 0 });
            (moved, of.done)
        })
    }

    /// Write-protects the present pages of `range`, or removes this protection.
    pub(crate) fn protect(
        &self,
        memory: &Managed,
        range: Range<usize>,
        is_protected: bool,
    ) -> Result<(), Errno> {
        let mode = if is_protected { PROTECT } else { UNPROTECT_NO_WAKE };
        go_on(range, |part| {
            let of = Writeprotect { place: place(memory, &part), mode };
            (self.ask(WRITEPROTECT, of).0, 0)
        })
        .map_err(|short| short.errno)
    }

    /// Returns the next unhandled fault, if there is one.
    pub(crate) fn next_fault(&self) -> Result<Option<Fault>, Errno> {
        let mut bytes = [0; size_of::<Message>()];
        match rustix::io::read(self.file()?, &mut bytes) {
            Ok(read) if read == bytes.len() => {
                // SAFETY: the structure consists of numbers, for which any bytes are valid.
                let message: Message = unsafe { std::mem::transmute(bytes) };
                let (address, thread) = (message.address as usize, message.thread);
                Ok((message.event == EVENT_PAGEFAULT).then_some(Fault { address, thread }))
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Uffd {
    fn drop(&mut self) {
        self.close();
    }
}
