//! Files in /proc about this process that are kept open.
//!
//! Such a descriptor refers to the process that opened it. A child therefore closes the inherited
//! descriptor and opens the file again at once, because it may be refused later. The file's
//! identity is checked before and after each use. The word that encodes the descriptor is in the
//! page that is wiped in each copy of the process.

use crate::descriptor::{Descriptor, File, name};
use crate::process::{FILES, own, shares_memory};
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags, Stat, fstat, open, stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The number of attempts to open a file if other threads keep closing it.
const TRIES: usize = 16;
#[derive(Debug)]
pub(crate) struct KeptFile {
    nth: usize,
    path: &'static CStr,
    flags: OFlags,
}

pub(crate) static MEMORY: KeptFile =
    KeptFile { nth: 0, path: c"/proc/thread-self/mem", flags: OFlags::RDWR };
/// Its link count gives the number of threads of the process that opened it.
pub(crate) static TASKS: KeptFile =
    KeptFile { nth: 1, path: c"/proc/self/task", flags: OFlags::PATH };
/// Contains the size of the process's memory.
pub(crate) static MEMORY_USED: KeptFile =
    KeptFile { nth: 2, path: c"/proc/self/statm", flags: OFlags::RDONLY };
static KEPT: [&KeptFile; FILES] = [&MEMORY, &TASKS, &MEMORY_USED];

/// The last descriptor of each file, which a child inherits.
static LEFT: [AtomicU64; FILES] = [const { AtomicU64::new(NONE) }; FILES];
const NONE: u64 = Descriptor::NONE.packed();

/// Closes the descriptors that a child inherited, and opens its own. If that is refused, it is
/// tried again at the next use.
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

    /// Replaces `seen` by `new`. Returns the present value as the error if it is another.
    fn replace(&self, seen: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let replaced = self.word().compare_exchange(seen.packed(), new.packed(), SeqCst, SeqCst);
        replaced.map(drop).map_err(Descriptor::unpack)
    }

    /// Returns the metadata of the file, if it is open.
    pub(crate) fn current(&self) -> Option<Stat> {
        self.kept().look()
    }

    /// Returns the metadata of the file, and opens it if necessary.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        self.with(|file| fstat(file))
    }

    /// Calls `work` with the descriptor, and opens the file if necessary. Calls it again if the
    /// descriptor named another file in the meantime.
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
                // The descriptor names the file, but other code opened it, only for reading.
                Err(Errno::BADF) => {
                    let _other = self.replace(kept, Descriptor::NONE);
                }
                done if is_ours => return done,
                _ => {}
            }
        }
        Err(Errno::BADF)
    }

    fn open(&self) -> Result<Descriptor, Errno> {
        let file = File::from(open(self.path, self.flags | OFlags::CLOEXEC, Mode::empty())?);
        // Other code may have closed it already. The identity is therefore that of the path.
        Ok(Descriptor::raised(stat(self.path).map_or(0, |stat| name(&stat)), file))
    }

    /// Keeps an opened descriptor for the next calls in place of `seen`, unless it was closed
    /// already. Returns the descriptor to use, and whether it must be closed after use.
    fn keep(&self, seen: Descriptor, opened: Descriptor) -> Option<(Descriptor, bool)> {
        opened.look()?;
        // In other processes that share this memory the number may name another file or none.
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
        // The loop ensures that the last value stored in `left` is the descriptor that is kept
        // last.
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
