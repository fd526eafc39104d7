//! Descriptors of this crate, which are hidden from the program, and files of /proc that this crate
//! keeps open.
//!
//! At any moment the program can close a descriptor of this crate, and open another file under the
//! same number. To make this unlikely, this crate's descriptors have high numbers, because the
//! kernel gives new files the lowest free number. Before each use of a descriptor, this crate
//! checks that the descriptor still refers to its file.
//!
//! ```text
//!   63 .. 32             31 .. 20       19 .. 0
//!   | name of the file | which opening | descriptor + 1 |     0: none
//! ```
//! # Safety
//! A descriptor is borrowed by its number. If the program closes the descriptor, a call with this
//! number fails or affects another file. A check after the call detects this case. A descriptor is
//! closed only if the last check showed that it still refers to this crate's file.
#![allow(unsafe_code)]

use crate::policy::{LAST_NUMBERS, NUMBERS_MAX, OPENINGS_MAX};
use crate::process::{FILES, own, shares_memory};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Stat, fstat, open, stat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const NUMBER: u64 = (1 << 20) - 1;
/// The lowest bit of the field "which opening". This field distinguishes files that were opened one
/// after another under the same descriptor number.
const OPENING: u64 = 1 << 20;

static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// A descriptor with the identity of its file, in the format of the module's diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor(pub(crate) u64);

/// Returns a hash of a file's device and inode, which distinguishes the file from other files.
fn name(stat: &Stat) -> u32 {
    let both = stat.st_ino ^ stat.st_dev.rotate_left(32);
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// An open file. Dropping this value closes the file by a direct system call. [`OwnedFd`] would
/// call the C library's `close`, which is a cancellation point, and a fault handler must not be
/// cancelled.
#[derive(Debug)]
pub struct File(ManuallyDrop<OwnedFd>);

impl From<OwnedFd> for File {
    fn from(file: OwnedFd) -> Self {
        File(ManuallyDrop::new(file))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: this value owns the descriptor, and no code uses it afterwards: `ManuallyDrop`
        // does not close the descriptor.
        _ = unsafe { libc::syscall(libc::SYS_close, self.0.as_raw_fd()) };
    }
}

impl Descriptor {
    pub(crate) const NONE: Self = Descriptor(0);

    /// Moves `file` to a descriptor with a high number, if one is free, and returns the descriptor.
    /// `stat` is the metadata of the file.
    pub(crate) fn raised(stat: Result<Stat, Errno>, file: File) -> Self {
        let name = stat.map_or(0, |stat| name(&stat));
        let opening = OPENINGS.fetch_add(OPENING, SeqCst) as u32;
        let pack = |file: File| {
            let number = (ManuallyDrop::new(file).as_fd().as_raw_fd() + 1) as u64;
            Descriptor(u64::from(name) << 32 | u64::from(opening) | number)
        };
        let low = pack(file);
        let max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(NUMBERS_MAX);
        match fcntl_dupfd_cloexec(low.borrow(), max.saturating_sub(LAST_NUMBERS) as i32) {
            Ok(high) => {
                low.close();
                pack(high.into())
            }
            Err(_) => low,
        }
    }

    fn number(self) -> i32 {
        (self.0 & NUMBER) as i32 - 1
    }

    pub(crate) fn file(self) -> Option<BorrowedFd<'static>> {
        (self != Self::NONE).then(|| self.borrow())
    }

    fn borrow(self) -> BorrowedFd<'static> {
        // SAFETY: the number is not -1, because `raised` got it from the kernel. The module
        // documentation states why a closed descriptor is harmless.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }

    /// Returns the file's metadata, if the descriptor still refers to this crate's file.
    pub(crate) fn look(self) -> Option<Stat> {
        fstat(self.file()?).ok().filter(|stat| u64::from(name(stat)) == self.0 >> 32)
    }

    /// Closes the descriptor if it still refers to this crate's file. The caller guarantees that no
    /// thread uses the descriptor.
    pub(crate) fn close(self) {
        if self.look().is_some() {
            // SAFETY: the descriptor referred to our file just before, and the caller guarantees
            // that no thread uses the descriptor. If another thread has closed the descriptor since
            // the check, the call fails.
            _ = unsafe { libc::syscall(libc::SYS_close, self.number()) };
        }
    }
}

/// A file in /proc that describes the process that opened the file. So a child closes the inherited
/// descriptor and opens the file again. The child does this at once, because the kernel can refuse
/// a later attempt. The word of the descriptor is in the page that the kernel replaces by zeros in
/// each child.
#[derive(Debug)]
pub(crate) struct KeptFile {
    nth: usize,
    path: &'static CStr,
    flags: OFlags,
}

pub(crate) static MEMORY: KeptFile =
    KeptFile { nth: 0, path: c"/proc/thread-self/mem", flags: OFlags::RDWR };
/// The directory of the process's threads. The number of threads follows from the directory's link
/// count.
pub(crate) static TASKS: KeptFile =
    KeptFile { nth: 1, path: c"/proc/self/task", flags: OFlags::PATH };
/// The file that contains the size of the process's memory.
pub(crate) static MEMORY_USED: KeptFile =
    KeptFile { nth: 2, path: c"/proc/self/statm", flags: OFlags::RDONLY };
static KEPT: [&KeptFile; FILES] = [&MEMORY, &TASKS, &MEMORY_USED];

/// The last kept descriptor of each file. A child inherits these descriptors.
static LEFT: [AtomicU64; FILES] = [const { AtomicU64::new(NONE) }; FILES];
const NONE: u64 = Descriptor::NONE.0;

/// Closes the inherited descriptors, and opens the files again for the child. If the kernel refuses
/// to open a file, the next use of the file tries again.
pub(crate) fn begin_child() {
    for (file, left) in KEPT.iter().zip(&LEFT) {
        let left = Descriptor(left.swap(NONE, SeqCst));
        left.close();
        if left != Descriptor::NONE {
            let _later = file.open().map(|opened| file.keep(Descriptor::NONE, opened));
        }
    }
}

impl KeptFile {
    fn word(&self) -> &'static AtomicU64 {
        &own().files[self.nth]
    }

    /// Returns the kept descriptor, which may no longer refer to the file.
    pub(crate) fn kept(&self) -> Descriptor {
        Descriptor(self.word().load(SeqCst))
    }

    /// Calls `work` with the descriptor, after opening the file if necessary. Calls `work` again if
    /// the descriptor referred to another file after the call.
    pub(crate) fn with<T>(
        &self,
        mut work: impl FnMut(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        for _ in 0..OPENINGS_MAX {
            let seen = self.kept();
            let found = match seen.look() {
                Some(_) => Some((seen, false)),
                None => self.keep(seen, self.open()?),
            };
            let Some((kept, is_lent)) = found else { continue };
            let done = kept.file().ok_or(Errno::BADF).and_then(&mut work);
            let is_ours = kept.look().is_some();
            if is_lent {
                kept.close();
            }
            match done {
                // The program has opened the same file under this number, but only for reading.
                Err(Errno::BADF) => {
                    let _other = self.word().compare_exchange(kept.0, NONE, SeqCst, SeqCst);
                }
                done if is_ours => return done,
                _ => {}
            }
        }
        Err(Errno::BADF)
    }

    fn open(&self) -> Result<Descriptor, Errno> {
        let file = File::from(open(self.path, self.flags | OFlags::CLOEXEC, Mode::empty())?);
        // The program may have closed the new descriptor already. So the file's identity is read
        // through the path.
        Ok(Descriptor::raised(stat(self.path), file))
    }

    /// Replaces the kept descriptor `seen` by `opened`. Returns `None` if the program has closed
    /// `opened`. Otherwise returns the descriptor to use, and whether the caller must close it
    /// after use.
    fn keep(&self, seen: Descriptor, opened: Descriptor) -> Option<(Descriptor, bool)> {
        opened.look()?;
        // Processes that share this memory may have other files under this number, so the
        // descriptor is used only once.
        if shares_memory() {
            return Some((opened, true));
        }
        let kept = self.word().compare_exchange(seen.0, opened.0, SeqCst, SeqCst);
        if let Err(now) = kept.map_err(Descriptor) {
            if now.look().is_none() {
                return Some((opened, true));
            }
            opened.close();
            return Some((now, false));
        }
        // Several threads may replace the descriptor at the same time. The loop ends when `left`
        // holds the descriptor that is now kept.
        let left = &LEFT[self.nth];
        loop {
            let now = self.word().load(SeqCst);
            left.store(now, SeqCst);
            if self.word().load(SeqCst) == now {
                return Some((opened, false));
            }
        }
    }
}
