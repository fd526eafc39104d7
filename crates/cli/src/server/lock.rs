//! Files that a process alone saves to when it ends: a lock lies beside each, where processes of
//! all users and environments find it.

use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use zram::{OpenLocked, open_locked};

/// What its name ends in: longer than what a save makes of a file's name, so that one that is too
/// long for that is found out before there is anything to save.
const ENDING: &str = ".save-on-exit";

/// A lock, and its file, which goes with it.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _locked: File,
}

impl Lock {
    /// Returns the one of a file, beside it.
    pub(super) fn beside(file: &Path) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(file.file_name().ok_or(Errno::INVAL)?);
        name.push(ENDING);
        Lock::at(file.with_file_name(name))
    }

    /// Returns what someone else put there is no lock, and not waited for.
    pub(super) fn at(path: PathBuf) -> io::Result<Self> {
        let locked = open_locked(&path, OpenLocked::Lock)?;
        Ok(Lock { path, _locked: locked })
    }
}

/// Returns whether there is no lock since another has it.
pub(super) fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Held still.
        let _ = fs::remove_file(&self.path);
    }
}
