//! Locks on save files, so that two servers never save to the same file. A lock is a file beside
//! the save file, where the processes of all users find it.

use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use zram::{OpenLocked, open_locked};

/// The end of a lock file's name. This end is longer than the suffix that a save adds to a name. So
/// the server already refuses at its start a name that is too long for a save.
const ENDING: &str = ".save-on-exit";

/// A held lock. Dropping the lock removes the lock file.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _locked: File,
}

impl Lock {
    /// Locks `file` by a lock file beside it.
    pub(super) fn beside(file: &Path) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(file.file_name().ok_or(Errno::INVAL)?);
        name.push(ENDING);
        Lock::at(file.with_file_name(name))
    }

    /// Creates and locks the lock file at `path`. Fails at once if another user owns a file at
    /// `path`.
    pub(super) fn at(path: PathBuf) -> io::Result<Self> {
        let locked = open_locked(&path, OpenLocked::Lock)?;
        Ok(Lock { path, _locked: locked })
    }
}

/// Returns whether a lock was refused because another process holds it.
pub(super) fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

impl Drop for Lock {
    fn drop(&mut self) {
        // This process still holds the lock, so the file at this path is its own.
        let _ = fs::remove_file(&self.path);
    }
}
