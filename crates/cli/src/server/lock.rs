//! Files that a process alone saves to when it ends: a lock lies beside each, where all find it,
//! whatever their environment and whoever they are.

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What its name ends in: longer than what a save makes of a file's name, so that one that is too
/// long for that is found out before there is anything to save.
const ENDING: &str = ".save-on-exit";

/// A lock, and its file, which goes with it.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _locked: File,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum NoLock {
    /// Another has it.
    Taken,
    Failed(io::Error),
}

impl From<io::Error> for NoLock {
    fn from(error: io::Error) -> Self {
        NoLock::Failed(error)
    }
}

impl Lock {
    /// The one of a file, beside it.
    pub(super) fn beside(file: &Path) -> Result<Self, NoLock> {
        let mut name = OsString::from(".");
        name.push(file.file_name().ok_or(io::Error::from(Errno::INVAL))?);
        name.push(ENDING);
        Lock::at(file.with_file_name(name))
    }

    /// What someone else put there is no lock, and not waited for.
    pub(super) fn at(path: PathBuf) -> Result<Self, NoLock> {
        // Who has it open to write keeps the file system from being made read-only; NFS locks no
        // other.
        let mut is_to_write = false;
        loop {
            let flags = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
            let mut options = OpenOptions::new();
            options.read(true).write(is_to_write).mode(0o600);
            let locked = options.custom_flags(flags.bits() as i32).open(&path)?;
            let ours = locked.metadata()?;
            if !ours.is_file() || ours.uid() != geteuid().as_raw() {
                return Err(io::Error::from(Errno::PERM).into());
            }
            match locked.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(NoLock::Taken),
                Err(TryLockError::Error(error)) => {
                    let is_refused = Errno::from_io_error(&error) == Some(Errno::BADF);
                    if !is_refused || is_to_write {
                        return Err(error.into());
                    }
                    is_to_write = true;
                    continue;
                }
            }
            // Who had it may have removed it in between.
            let there = fs::symlink_metadata(&path);
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                return Ok(Lock { path, _locked: locked });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Held still.
        let _ = fs::remove_file(&self.path);
    }
}
