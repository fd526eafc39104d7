//! Descriptors of this crate that the program may close, because they are hidden from the program,
//! and files in /proc about this process that are kept open.
//!
//! The program may close such a descriptor at any moment, and open another file under the same
//! number. So a descriptor has a high number, which calls that open files don't return, and the
//! file to which it refers is checked before use.
//!
//! ```text
//!   63 .. 32             31 .. 20       19 .. 0
//!   | name of the file | which opening | descriptor + 1 |     0: none
//! ```
//! # Safety
//! Descriptors are borrowed by number. If the program closed a descriptor in the meantime, calls on
//! it fail or affect another file, which a check afterwards detects. A descriptor is closed only if
//! the last check showed that it still refers to this crate's file.
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
/// The lowest bit of the number of the opening, which distinguishes successive openings under the
/// same descriptor number.
const OPENING: u64 = 1 << 20;

static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor(pub(crate) u64);

/// Returns a hash of a file's device and inode, which distinguishes the file from others.
fn name(stat: &Stat) -> u32 {
    let both = stat.st_ino ^ stat.st_dev.rotate_left(32);
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// An open file. Dropping the value closes the file by a direct system call: the C library's
/// `close`, which [`OwnedFd`] calls, is a cancellation point, and a fault handler can't be unwound.
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

    /// Moves `file`, whose metadata are `stat`, to a descriptor with a high number, if one is free.
    /// Returns the descriptor.
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

    /// Borrows the descriptor, unless it is `NONE`.
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
            // that no thread uses the descriptor. If another thread has closed it in the meantime,
            // the call fails.
            _ = unsafe { libc::syscall(libc::SYS_close, self.number()) };
        }
    }
}

/// A file in /proc. It describes the process that opened it, so a child closes the inherited
/// descriptor and opens the file again at once, because the kernel may refuse that later. The word
/// that encodes the descriptor is in the page that the kernel wipes in each copy of the process.
#[derive(Debug)]
pub(crate) struct KeptFile {
    nth: usize,
    path: &'static CStr,
    flags: OFlags,
}

pub(crate) static MEMORY: KeptFile =
    KeptFile { nth: 0, path: c"/proc/thread-self/mem", flags: OFlags::RDWR };
/// The directory of threads. Its link count gives the number of threads of the process that opened
/// it.
pub(crate) static TASKS: KeptFile =
    KeptFile { nth: 1, path: c"/proc/self/task", flags: OFlags::PATH };
/// The file that contains the size of the process's memory.
pub(crate) static MEMORY_USED: KeptFile =
    KeptFile { nth: 2, path: c"/proc/self/statm", flags: OFlags::RDONLY };
static KEPT: [&KeptFile; FILES] = [&MEMORY, &TASKS, &MEMORY_USED];

/// For each file, the descriptor that was kept last. A child inherits these descriptors.
static LEFT: [AtomicU64; FILES] = [const { AtomicU64::new(NONE) }; FILES];
const NONE: u64 = Descriptor::NONE.0;

/// Closes the descriptors that a child inherited, and opens the files again for the child. If the
/// kernel refuses to open a file, the next use tries again.
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

    /// Returns the descriptor that is kept, which may no longer refer to the file.
    pub(crate) fn kept(&self) -> Descriptor {
        Descriptor(self.word().load(SeqCst))
    }

    /// Calls `work` with the descriptor. Opens the file if necessary. Calls `work` again if the
    /// descriptor referred to another file in the meantime.
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
                // The descriptor refers to the same file, but other code opened it, and only for
                // reading.
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
        // Other code may have closed the descriptor already. Therefore the file's identity is read
        // through the path.
        Ok(Descriptor::raised(stat(self.path), file))
    }

    /// Keeps `opened` for the next calls in place of `seen`. Returns `None` if `opened` was closed
    /// already. Otherwise returns the descriptor to use, and whether it must be closed after use.
    fn keep(&self, seen: Descriptor, opened: Descriptor) -> Option<(Descriptor, bool)> {
        opened.look()?;
        // In other processes that share this memory, the number may refer to another file or to no
        // file.
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
        // The loop ensures that the last value stored in `left` is the last descriptor that was
        // kept.
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
