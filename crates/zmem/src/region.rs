//! A region: the interface of this crate for programs.
//!
//! # Safety
//! A region's memory is mapped and initialized. A fault fills an absent block before a thread reads
//! the block's bytes (zm-S2), so slices of a region are like slices of other memory.
#![allow(unsafe_code)]

use crate::calls::{Calls, Locked};
use crate::memory::Managed;
use crate::pager::{Contents, Pager};
use crate::pager_thread::FaultThreads;
use crate::stats::Stats;
use crate::worker::Workers;
use crate::{Advice, Error, Options, chunk, handler, mappings, policy, range_calls, registry};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory whose cold blocks are compressed. A compressed block is filled again when it is accessed.
///
/// A region is a slice of bytes, which are zeros at first. [`lock`](Self::lock) a range before you
/// pass it to a system call. Otherwise, the call fails with EFAULT if a block is absent (not
/// resident), except with [`BackendKind::Userfaultfd`](crate::BackendKind).
///
/// An access to an absent block raises SIGSEGV. If the thread has blocked SIGSEGV, the kernel kills
/// the process. So code that accesses a region must not block SIGSEGV by its mask or by `sa_mask`
/// (for example by `sigfillset`). In a program that forks, a handler that can interrupt the
/// allocator must access only [locked](Self::lock) ranges. Otherwise, the fork could wait for the
/// allocator while the handler's fault waits for the fork. Evictions undo calls of `mprotect`.
///
/// ```
/// let options = zmem::Options { limit: Some(16 << 20), ..zmem::Options::default() };
/// let mut region = zmem::Region::new(64 << 20, options)?;
/// for (nth, byte) in region.iter_mut().step_by(512).enumerate() {
///     *byte = nth as u8;
/// }
/// assert!(region.stats().held <= 16 << 20);
/// assert!(region.iter().step_by(512).enumerate().all(|(nth, byte)| *byte == nth as u8));
/// # Ok::<(), zmem::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    calls: Calls,
    bytes: usize,
    threads: FaultThreads,
}

impl Region {
    /// Creates a region of `bytes` zero bytes. An empty region uses 1.6 to 3 MB. A region has a
    /// stack, a buffer and a stream for each processor, and two more of each.
    ///
    /// # Errors
    /// Fails if the options contradict each other, or if the system refuses memory.
    pub fn new(bytes: usize, options: Options) -> Result<Self, Error> {
        let block = options.sizes()?.block;
        // A large region consists of whole chunks, because its blocks can exceed `block` (zm-M2).
        let least = if bytes / block < policy::FEW_BLOCKS { block } else { policy::CHUNK_BYTES };
        let whole = bytes.checked_next_multiple_of(least).filter(|&whole| whole > 0);
        let whole = whole.ok_or(Error::Size { bytes, block })?;
        let memory = Managed::map(whole, policy::CHUNK_BYTES);
        let memory = memory.map_err(Error::system("address space for a region"))?;
        mappings::may_be_data(&memory)
            .map_err(Error::system("so much data (see RLIMIT_DATA and vm.overcommit_memory)"))?;
        Self::of(memory, bytes, &options)
    }

    /// Creates a region of existing memory. It manages the blocks that lie entirely in this memory.
    /// Dropping the region fills all of these blocks and ends the management.
    ///
    /// # Safety
    /// The memory is private, anonymous, readable and writable. During the lifetime of the region,
    /// no other code unmaps or moves the memory, changes its protection, or lets the kernel drop
    /// its pages. The process's allocator does not use the memory. The memory contains no thread's
    /// stack, alternate signal stack or thread-local storage, because faults on these can't be
    /// handled.
    ///
    /// # Errors
    /// Fails as [`new`](Self::new) does. The error is [`Error::Overlap`] if another region contains
    /// some of the memory. The error is [`Error::Memory`] if some of it is locked, or not private,
    /// anonymous, readable and writable.
    pub unsafe fn manage(
        start: NonNull<u8>,
        bytes: usize,
        options: Options,
    ) -> Result<Self, Error> {
        let block = options.sizes()?.block;
        let start_at = start.addr().get();
        let first = start_at.checked_next_multiple_of(block);
        let end = start_at.checked_add(bytes).map(|end| end / block * block);
        let addresses = first.zip(end).filter(|(first, end)| first < end);
        let (first, end) = addresses.ok_or(Error::Size { bytes, block })?;
        let (skip, whole) = (first - start_at, end - first);
        registry::check_free(&(first..end)).and_then(|()| mappings::check_plain(&(first..end)))?;
        // SAFETY: `skip` is at most `bytes`. The caller guarantees the properties of the memory.
        let memory = unsafe { Managed::of_program(start.add(skip), whole) };
        if let Some(at) = mappings::first_that_stays(&memory) {
            return Err(Error::Memory { at, what: "locked, or of large pages" });
        }
        Self::of(memory, whole, &options)
    }

    fn of(memory: Managed, bytes: usize, options: &Options) -> Result<Self, Error> {
        let contents = if memory.is_ours { Contents::Untouched } else { Contents::InUse };
        // `install` registers a fork handler, which must be registered before the device's handler.
        handler::install(libc::SIGSEGV);
        if !options.backend.is_signal() {
            handler::install(libc::SIGBUS);
        }
        let pager = Arc::new(Pager::new(memory, contents, options)?);
        chunk::begin(&pager, contents);
        // SAFETY: `drop` removes the pager from the registry before the region drops the pager.
        unsafe { registry::add(&pager, pager.memory.addresses(), || Ok(()))? };
        let calls = Calls { pager, worker: Workers::default() };
        let mut region = Region { calls, bytes, threads: FaultThreads::default() };
        let pager = &region.calls.pager;
        let begun = pager.backend.begin(&pager.memory);
        begun.map_err(Error::system("to tell of touches of this memory"))?;
        region.threads = FaultThreads::start(pager)?;
        region.calls.seek_room();
        Ok(region)
    }

    fn blocks(&self, &Range { start, end }: &Range<usize>) -> Result<Range<usize>, Error> {
        let (bytes, size) = (self.bytes, self.calls.pager.sizes.block);
        if start > end || end > bytes {
            return Err(Error::Range { start, end, bytes });
        }
        Ok(start / size..if start == end { start / size } else { end.div_ceil(size) })
    }

    /// Evicts the coldest blocks: `bytes` bytes, rounded up to blocks. Returns the number of
    /// evicted bytes.
    pub fn reclaim(&self, bytes: usize) -> usize {
        self.calls.reclaim(bytes)
    }

    /// Fills all blocks of a range.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Forked`].
    pub fn prefetch(&self, range: Range<usize>) -> Result<(), Error> {
        self.calls.bring(self.blocks(&range)?)
    }

    /// Evicts or fills a range, depending on `advice` about its future use.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Forked`].
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<(), Error> {
        self.calls.advise(self.blocks(&range)?, advice)
    }

    /// Zeroes a range. Blocks that lie entirely in the range use no memory after the call.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Forked`]; [`Error::Locked`] if a whole block of the range is
    /// locked. A failed call changes nothing, unless another thread locks a block during the call.
    pub fn dont_need(&mut self, range: Range<usize>) -> Result<(), Error> {
        // SAFETY: the region is borrowed mutably, so no other reference to its bytes lives.
        unsafe { self.dont_need_shared(range) }
    }

    /// Does the same as [`dont_need`](Self::dont_need), even while other threads use the region.
    ///
    /// # Safety
    /// Live references to bytes of the range are of types that permit changes, such as `&AtomicU8`.
    ///
    /// # Errors
    /// The errors of [`dont_need`](Self::dont_need).
    pub unsafe fn dont_need_shared(&self, range: Range<usize>) -> Result<(), Error> {
        self.blocks(&range).and_then(|_| self.calls.inside(|_| ()))?;
        let size = self.calls.pager.sizes.block;
        let first = range.start.next_multiple_of(size).min(range.end);
        let last = (range.end / size * size).max(first);
        let whole = first / size..last / size;
        range_calls::check_unpinned(&self.calls.pager, whole.clone())?;
        let zero = |part: Range<usize>| {
            // SAFETY: `blocks` checked that `part` is in the region. The caller permits this code
            // to zero `part`.
            unsafe { self.as_ptr().add(part.start).write_bytes(0, part.len()) }
        };
        zero(range.start..first);
        self.calls.in_steps(whole, |part| {
            self.calls.inside(|pager| range_calls::dont_need(pager, part))?
        })?;
        zero(last..range.end);
        Ok(())
    }

    /// Fills a range, and keeps the range resident until the lock is dropped. A locked range can be
    /// passed to system calls.
    ///
    /// # Errors
    /// [`Error::Locked`] if a block has 65,535 locks; [`Error::Range`]; [`Error::Forked`].
    pub fn lock(&self, range: Range<usize>) -> Result<Locked<'_>, Error> {
        let blocks = self.blocks(&range)?;
        // After an error, blocks that this call pinned can be evicted again.
        self.calls.pin(blocks.clone()).inspect_err(|_| self.calls.seek_room())?;
        Ok(Locked { calls: &self.calls, blocks })
    }

    /// Sets or removes the limit of the region.
    ///
    /// # Errors
    /// [`Error::Limit`] if an empty region needs more; [`Error::Forked`]. Both change nothing.
    pub fn set_limit(&self, limit: Option<u64>) -> Result<(), Error> {
        self.calls.inside(|pager| pager.limit.set(limit))??;
        self.calls.seek_room();
        Ok(())
    }

    /// Returns the region's statistics.
    pub fn stats(&self) -> Stats {
        self.calls.stats()
    }

    /// Returns a pointer to the region's first byte, for reads and writes by any thread.
    pub fn as_ptr(&self) -> *mut u8 {
        self.calls.pager.memory.start().as_ptr()
    }

    /// Asserts that the region's counters agree with the states of its blocks. No other thread is
    /// allowed to use the region during the call.
    pub fn check(&self) {
        let _no_one_here = self.calls.inside(range_calls::check);
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: see the module documentation. At least `self.bytes` bytes are mapped.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the region is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.bytes) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.calls.end();
        self.threads.stop(&self.calls.pager);
    }
}
