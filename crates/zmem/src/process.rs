//! Detects that this process is a *copy*: a child with a copy of its parent's memory (zm-F4).
//!
//! The kernel zeroes (wipes) one page in each copy of this memory. So a child detects that it is a
//! copy even if no fork handler was called. A child of `vfork` shares this memory and the page, so
//! it is not a copy.
//!
//! # Safety
//! [`OWN`] is null, or points to an [`Own`] in a page that stays mapped. All zeros are a valid
//! [`Own`]. [`PUT_RIGHT`] is null, or a function of type `fn(CopyDetectedBy)`.
#![allow(unsafe_code)]

use crate::table::{map, unmap};
use page::Patience;
use rustix::mm::{Advice, ProtFlags, madvise};
use rustix::process::getpid;
use rustix::thread::sched_getaffinity;
use std::mem::transmute;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

/// The number of files whose descriptors are kept.
pub(crate) const FILES: usize = 3;

/// The page was wiped. This process is a copy that was not repaired yet.
const UNKNOWN: u32 = 0;
/// A thread is repairing this copy.
const NOTICING: u32 = 1;
/// This process is the first process, or a repaired copy.
const KNOWN: u32 = 2;

/// The state that belongs to one process. In a copy of the process, all of this state is zero.
#[derive(Debug)]
pub(crate) struct Own {
    state: AtomicU32,
    /// A word for each file whose descriptor is kept.
    pub(crate) files: [AtomicU64; FILES],
}

/// The state that is used if the kernel can't wipe a page (before Linux 4.14). In this case, the
/// fork handler resets the state.
static UNWIPED: Own =
    Own { state: AtomicU32::new(KNOWN), files: [const { AtomicU64::new(0) }; FILES] };
static OWN: AtomicPtr<Own> = AtomicPtr::new(null_mut());
/// The generation: the number of times that a process was copied, from the first process to this
/// one.
static COPIES: AtomicU32 = AtomicU32::new(0);
/// The process ID of the owner of this memory, or 0 before the first region is created.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Null, or the function of type `fn(CopyDetectedBy)` that repairs a copy.
static PUT_RIGHT: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Returns the number of processors that this process was allowed to use at the first call of this
/// function.
pub fn processors() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let known = COUNT.load(Acquire);
    if known > 0 {
        return known;
    }
    // A quota of a control group is ignored, because reading the quota takes as long as all other
    // work of creating a region.
    let count = match sched_getaffinity(None) {
        Ok(processors) => processors.count() as usize,
        // The system has more processors than a `CpuSet` can hold.
        Err(_) => std::thread::available_parallelism().map_or(1, |count| count.get()),
    };
    COUNT.store(count, Release);
    count
}

/// How a process has detected that it is a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyDetectedBy {
    /// By the call of the fork handler. No other thread was inside the gate at the fork.
    Handler,
    /// By the wiped page. Other threads may have been inside the gate when the copy was made.
    Page,
}

/// Maps the page that is wiped in copies. Called before the first region is created. Each copy
/// calls `put_right` before it uses a region.
pub(crate) fn begin(put_right: fn(CopyDetectedBy)) {
    PUT_RIGHT.store(put_right as *mut (), Release);
    let _known = PROCESS.compare_exchange(0, pid(), AcqRel, Acquire);
    if OWN.load(Acquire).is_null() {
        let mapped = map_page();
        let unwiped = (&raw const UNWIPED).cast_mut();
        let own = mapped.map_or(unwiped, |page| page.as_ptr().cast());
        let placed = OWN.compare_exchange(null_mut(), own, AcqRel, Acquire);
        if let (Err(_), Some(page)) = (placed, mapped) {
            unmap(page, page::page_size());
        }
    }
}

fn pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// Returns whether this process uses the memory of another process, as a child of `vfork` does.
pub(crate) fn shares_memory() -> bool {
    pid() != PROCESS.load(Acquire)
}

/// Maps the page that is wiped in copies. Returns `None` if the kernel can't map or wipe the page.
fn map_page() -> Option<NonNull<u8>> {
    let bytes = page::page_size();
    let page = map(bytes, ProtFlags::READ | ProtFlags::WRITE).ok()?;
    // SAFETY: the page was just mapped, and no other code uses it.
    if unsafe { madvise(page.as_ptr().cast(), bytes, Advice::LinuxWipeOnFork) }.is_err() {
        unmap(page, bytes);
        return None;
    }
    // SAFETY: an `Own` fits in a page, and zeros are a valid `Own`, because it consists of numbers.
    unsafe { page.cast::<Own>().as_ref() }.state.store(KNOWN, Release);
    Some(page)
}

pub(crate) fn own() -> &'static Own {
    // SAFETY: `OWN` is null, or points to a page that stays mapped and contains an `Own`.
    unsafe { OWN.load(Acquire).as_ref() }.unwrap_or(&UNWIPED)
}

/// Returns the generation, a number that differs between a process and its copies.
pub(crate) fn generation() -> u32 {
    look();
    COPIES.load(Acquire)
}

/// Repairs this process if it is a copy that was not repaired yet. A thread calls this function
/// before it enters the gate. Inside the gate, further calls change nothing.
pub(crate) fn look() {
    if own().state.load(Acquire) != KNOWN {
        notice(CopyDetectedBy::Page);
    }
}

/// Repairs a child of fork. Called by the fork handler.
pub(crate) fn begin_child() {
    let own = own();
    // The words are cleared here, because some kernels can't wipe the page.
    own.files.iter().for_each(|file| file.store(0, Release));
    own.state.store(UNKNOWN, Release);
    notice(CopyDetectedBy::Handler);
}

/// Repairs this copy. One thread does the repair, and other threads wait.
fn notice(by: CopyDetectedBy) {
    let (state, mut patience) = (&own().state, Patience::new("the repair of a child"));
    while let Err(seen) = state.compare_exchange(UNKNOWN, NOTICING, AcqRel, Acquire) {
        if seen == KNOWN {
            return;
        }
        patience.spend();
        std::thread::yield_now();
    }
    COPIES.fetch_add(1, AcqRel);
    PROCESS.store(pid(), Release);
    let put_right = PUT_RIGHT.load(Acquire);
    if !put_right.is_null() {
        // SAFETY: `begin` stored a function of this type.
        unsafe { transmute::<*mut (), fn(CopyDetectedBy)>(put_right)(by) };
    }
    state.store(KNOWN, Release);
}
