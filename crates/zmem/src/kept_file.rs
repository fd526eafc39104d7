//! Files of this process's in /proc that are kept open.
//!
//! A descriptor means the process that opened it, so a child closes what it was left and opens the
//! file anew, at once: later it may be refused to it. What it names is looked at before each use
//! and after. The word that says it lies in the page that each copy of the process finds wiped.

use crate::descriptor::{Descriptor, File, name};
use crate::process::{FILES, own, shares_memory};
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags, Stat, fstat, open, stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// So often a file is opened in a row that others close meanwhile.
const TRIES: usize = 16;
/// A file that is kept open.
#[derive(Debug)]
pub(crate) struct KeptFile {
    nth: usize,
    path: &'static CStr,
    flags: OFlags,
}

pub(crate) static MEMORY: KeptFile =
    KeptFile { nth: 0, path: c"/proc/thread-self/mem", flags: OFlags::RDWR };
/// Its links tell how many threads the process has that opened it.
pub(crate) static TASKS: KeptFile =
    KeptFile { nth: 1, path: c"/proc/self/task", flags: OFlags::PATH };
/// It tells how much memory the process has.
pub(crate) static MEMORY_USED: KeptFile =
    KeptFile { nth: 2, path: c"/proc/self/statm", flags: OFlags::RDONLY };
static KEPT: [&KeptFile; FILES] = [&MEMORY, &TASKS, &MEMORY_USED];

/// What was last kept of each, which a child is left.
static LEFT: [AtomicU64; FILES] = [const { AtomicU64::new(NONE) }; FILES];
const NONE: u64 = Descriptor::NONE.packed();

/// Closes what a child was left, and opens what it has instead. What is refused is tried again when
/// there is need.
pub(crate) fn begin_child() {
    for (file, left) in KEPT.iter().zip(&LEFT) {
        let left = Descriptor::unpack(left.swap(NONE, SeqCst));
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

    fn kept(&self) -> Descriptor {
        Descriptor::unpack(self.word().load(SeqCst))
    }

    /// Puts `new` in place of `seen`; what there is instead, if there is.
    fn replace(&self, seen: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let replaced = self.word().compare_exchange(seen.packed(), new.packed(), SeqCst, SeqCst);
        replaced.map(drop).map_err(Descriptor::unpack)
    }

    /// What the system says of the file, if it is open.
    pub(crate) fn current(&self) -> Option<Stat> {
        self.kept().look()
    }

    /// What the system says of the file, which is opened if need be.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        self.with(|file| fstat(file))
    }

    /// Does `work` with the descriptor, which is opened if need be; again if it was another's
    /// meanwhile.
    pub(crate) fn with<T>(
        &self,
        mut work: impl FnMut(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        for _ in 0..TRIES {
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
                // It names the file, but was opened by another, to be read alone.
                Err(Errno::BADF) => {
                    let _other = self.replace(kept, Descriptor::NONE);
                }
                done if is_ours => return done,
                _ => {}
            }
        }
        Err(Errno::BADF)
    }

    /// Opens the file.
    fn open(&self) -> Result<Descriptor, Errno> {
        let file = File::from(open(self.path, self.flags | OFlags::CLOEXEC, Mode::empty())?);
        // Another may have closed it by now: what the path says is the file is no other.
        Ok(Descriptor::raised(stat(self.path).map_or(0, |stat| name(&stat)), file))
    }

    /// Has a descriptor that was opened be kept for the next calls, in place of what was seen, if
    /// no one has closed it; which there is now, and whether it is to be closed after use.
    fn keep(&self, seen: Descriptor, opened: Descriptor) -> Option<(Descriptor, bool)> {
        opened.look()?;
        // To others who have this memory the number may mean nothing.
        if shares_memory() {
            return Some((opened, true));
        }
        if let Err(now) = self.replace(seen, opened) {
            if now.look().is_none() {
                return Some((opened, true));
            }
            opened.close();
            return Some((now, false));
        }
        // The last one who writes it down has seen the last one that is kept.
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
