//! Files in /proc about this process that are kept open.
//!
//! Such a file describes the process that opened it. A child therefore closes the inherited
//! descriptor and opens the file again at once, because the kernel may refuse that later. The
//! file's identity is checked before and after each use. The word that encodes the descriptor is in
//! the page that the kernel wipes in each copy of the process.

use crate::descriptor::{Descriptor, File, name};
use crate::policy::OPENINGS_MAX;
use crate::process::{FILES, own, shares_memory};
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags, Stat, fstat, open, stat};
use rustix::io::{Errno, pread};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

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

/// Returns the size of this process's anonymous memory in bytes, if it can be read from /proc.
pub(crate) fn anonymous() -> Option<u64> {
    if page::is_confined() {
        return None;
    }
    let mut bytes = [0; 96];
    let len = MEMORY_USED.with(|file| pread(file, &mut bytes, 0)).ok()?;
    let text = str::from_utf8(&bytes[..len]).ok()?;
    let mut numbers = text.split(' ').map(str::parse::<u64>);
    let (resident, shared) = (numbers.nth(1)?.ok()?, numbers.next()?.ok()?);
    // If the first thread of a process has ended, the kernel reports 0 pages.
    (resident > 0).then_some(resident.saturating_sub(shared) * page::page_size() as u64)
}

impl KeptFile {
    fn word(&self) -> &'static AtomicU64 {
        &own().files[self.nth]
    }

    fn kept(&self) -> Descriptor {
        Descriptor(self.word().load(SeqCst))
    }

    /// Replaces `seen` by `new`. If the present value is not `seen`, returns the present value as
    /// the error.
    fn replace(&self, seen: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let replaced = self.word().compare_exchange(seen.0, new.0, SeqCst, SeqCst);
        replaced.map(drop).map_err(Descriptor)
    }

    /// Returns the metadata of the file, if the file is open.
    pub(crate) fn current(&self) -> Option<Stat> {
        self.kept().look()
    }

    /// Returns the metadata of the file. Opens the file if necessary.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        self.with(|file| fstat(file))
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
        // Other code may have closed the descriptor already. Therefore the file's identity is read
        // through the path.
        Ok(Descriptor::raised(stat(self.path).map_or(0, |stat| name(&stat)), file))
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
        if let Err(now) = self.replace(seen, opened) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_has_is_told() {
        let before = anonymous().unwrap();
        let block = vec![1u8; 64 << 20];
        let with = anonymous().unwrap();
        assert!(with >= before + (60 << 20), "{before}, {with}, {}", block[5]);
    }
}
