//! Memory of the system's: mappings of this crate's own, and what is managed.
//!
//! # Safety
//! A [`Table`] has its mapping to itself until it is dropped. [`Managed`] memory is read and
//! written by its program; here only its protection changes, and its pages come and go, which the
//! owner of a block alone may have done (zm-S1), such that whoever looks finds the block's data
//! (zm-S2).
#![allow(unsafe_code)]

use crate::process_memory::PROCESS_MEMORY;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::ptr::{NonNull, null_mut};

/// Linux 6.13; `libc` has no names for them yet.
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

/// Types of which zeros are a value, and that threads may share.
///
/// # Safety
/// A value may consist of zero bytes, and needs no drop.
pub(crate) unsafe trait Zeros: Sync {}

// SAFETY: zero is a number.
unsafe impl Zeros for std::sync::atomic::AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeros for std::sync::atomic::AtomicU64 {}
// SAFETY: it is one transparent `AtomicU32`.
unsafe impl Zeros for crate::state::BlockWord {}

/// A table that is zeros at first, whose pages come as they are touched.
#[derive(Debug)]
pub(crate) struct Table<T> {
    start: NonNull<T>,
    len: usize,
    held: PhantomData<T>,
}

// SAFETY: it lends shared references alone, of what is `Sync`; the mapping may be unmapped
// anywhere.
unsafe impl<T: Zeros> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Zeros> Sync for Table<T> {}

impl<T: Zeros> Table<T> {
    pub(crate) fn new(len: usize) -> Result<Self, Errno> {
        let bytes = (len * size_of::<T>()).max(1);
        let start = map(bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Table { start: start.cast(), len, held: PhantomData })
    }
}

impl<T> Table<T> {
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T: Zeros> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` mapped room for `len` of them, zeros, which `Zeros` says are values; a
        // mapping begins on a page. It stays until `drop`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        unmap(self.start.cast(), self.bytes().max(1));
    }
}

/// Maps private anonymous memory.
fn map(bytes: usize, protection: ProtFlags) -> Result<NonNull<u8>, Errno> {
    // SAFETY: the system chooses where, so nothing that is there is replaced.
    let start = unsafe {
        mmap_anonymous(null_mut(), bytes, protection, MapFlags::PRIVATE | MapFlags::NORESERVE)?
    };
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: callers have mapped it, and are about to be gone. An error would leave it mapped.
    let _left = unsafe { munmap(start.as_ptr().cast(), bytes) };
}

/// Who ends the mapping of managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Us,
    Program,
}

/// Memory of a program's that is managed. Ranges of it are bytes from its start, on pages.
#[derive(Debug)]
pub(crate) struct Managed {
    start: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

// SAFETY: what points to memory of the whole process; see the head of this file.
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

impl Managed {
    /// Maps memory that nobody can read or write yet, on a multiple of `align`.
    pub(crate) fn map(bytes: usize, align: usize) -> Result<Self, Errno> {
        let all = bytes.checked_add(align).ok_or(Errno::NOMEM)?;
        let first = map(all, ProtFlags::empty())?;
        let skip = first.addr().get().next_multiple_of(align) - first.addr().get();
        // SAFETY: `skip < align`, and `all` is `bytes + align`.
        let start = unsafe { first.add(skip) };
        // SAFETY: as above.
        let end = unsafe { start.add(bytes) };
        for (from, len) in [(first, skip), (end, align - skip)] {
            if len > 0 {
                unmap(from, len);
            }
        }
        let managed = Managed { start, bytes, owner: Owner::Us };
        managed.keep_pages_small();
        Ok(managed)
    }

    /// Takes over what is mapped there, readable and writable.
    ///
    /// # Safety
    /// It is private anonymous memory, which stays mapped and as it is protected as long as the
    /// result lives.
    pub(crate) unsafe fn of_program(start: NonNull<u8>, bytes: usize) -> Self {
        let managed = Managed { start, bytes, owner: Owner::Program };
        managed.keep_pages_small();
        managed
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.start.addr().get();
        start..start + self.bytes
    }

    /// Copies what lies from `at` on, whatever its protection. The caller owns the blocks.
    pub(crate) fn read(&self, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + buf.len()));
        PROCESS_MEMORY.read(start.addr() as u64, buf)
    }

    /// Copies bytes to `at`, which nobody can touch meanwhile. The caller owns the blocks.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let (start, _) = self.place(&(at..at + bytes.len()));
        // SAFETY: the range lies within; the owner of its blocks puts their data there, which are
        // what those who look find in any case (zm-S2).
        unsafe { PROCESS_MEMORY.write(start.addr() as u64, bytes) }
    }

    fn place(&self, range: &Range<usize>) -> (*mut c_void, usize) {
        assert!(range.start <= range.end && range.end <= self.bytes, "outside the region");
        // SAFETY: within the mapping, as was just asserted.
        (unsafe { self.start.add(range.start) }.as_ptr().cast(), range.len())
    }

    /// Blocks come and go by themselves: a large page would be split.
    fn keep_pages_small(&self) {
        let (start, bytes) = self.place(&(0..self.bytes));
        // SAFETY: a hint that changes no data. A system without large pages refuses it.
        let _refused = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
    }

    fn protect(&self, range: Range<usize>, flags: MprotectFlags) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range lies within; who asks owns its blocks.
        unsafe { mprotect(start, bytes, flags) }
    }

    /// Has whoever touches the range fault.
    pub(crate) fn close(&self, range: Range<usize>) -> Result<(), Errno> {
        self.protect(range, MprotectFlags::empty())
    }

    /// Has the range be readable and writable.
    pub(crate) fn open(&self, range: Range<usize>) -> Result<(), Errno> {
        self.protect(range, MprotectFlags::READ | MprotectFlags::WRITE)
    }

    /// Gives the pages of a range back: they read as zeros where they can be read.
    pub(crate) fn drop_pages(&self, range: Range<usize>) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the range lies within; who asks owns its blocks, and has their data elsewhere, or
        // was told that nobody wants them.
        unsafe { madvise(start, bytes, Advice::LinuxDontNeed) }
    }

    fn advise_raw(&self, range: Range<usize>, advice: i32) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        loop {
            // SAFETY: as for `drop_pages`.
            if unsafe { libc::madvise(start, bytes, advice) } == 0 {
                return Ok(());
            }
            // SAFETY: it is this thread's own.
            match unsafe { *libc::__errno_location() } {
                // A guard was set while another thread's fault was on its way.
                libc::EAGAIN | libc::EINTR => {}
                errno => return Err(Errno::from_raw_os_error(errno)),
            }
        }
    }

    /// Gives the pages of a range back, and has whoever touches it fault from then on.
    pub(crate) fn guard(&self, range: Range<usize>) -> Result<(), Errno> {
        self.advise_raw(range, MADV_GUARD_INSTALL)
    }

    /// Takes guards off: what was guarded reads as zeros.
    pub(crate) fn unguard(&self, range: Range<usize>) -> Result<(), Errno> {
        self.advise_raw(range, MADV_GUARD_REMOVE)
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if self.owner == Owner::Us {
            unmap(self.start, self.bytes);
        }
    }
}

/// Whether the system has guards.
pub(crate) fn has_guards() -> bool {
    let page = page::page_size();
    Managed::map(page, page).is_ok_and(|probe| probe.guard(0..page).is_ok())
}
