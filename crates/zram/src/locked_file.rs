//! Files that one process at a time has: opened, and locked.

use crate::open_file;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Permissions of a file that is written, and of a lock.
pub(crate) const PRIVATE: u32 = 0o600;

/// The purpose for which a file that is locked is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenLocked {
    /// To be written.
    Write,
    /// Its lock alone, so it is opened for reading: a file that is open for writing keeps the file
    /// system from being made read-only. If only a file that is open for writing can be locked
    /// (NFS), it is opened for writing.
    Lock,
}

/// Opens a file, made if it is not there, and locks it. The file has that name when it is locked,
/// even if another process renamed or removed a file before.
///
/// # Errors
/// Another process has it locked (EBUSY). A link, a pipe or a file of another user is refused
/// without waiting for it (EPERM).
pub fn open_locked(path: &Path, how: OpenLocked) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        options.read(how == OpenLocked::Lock).write(how == OpenLocked::Write).mode(PRIVATE);
        let flags = OFlags::CREATE | OFlags::NOFOLLOW;
        let file = open_file::open(&mut options, flags, path).map_err(|error| {
            let errno = Errno::from_io_error(&error);
            let is_planted = matches!(errno, Some(Errno::INVAL | Errno::LOOP));
            if is_planted { Errno::PERM.into() } else { error }
        })?;
        let ours = file.metadata()?;
        if !ours.is_file() || ours.uid() != geteuid().as_raw() {
            return Err(Errno::PERM.into());
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Errno::BUSY.into()),
            Err(TryLockError::Error(error)) => {
                let is_for_writers = Errno::from_io_error(&error) == Some(Errno::BADF);
                return match how {
                    OpenLocked::Lock if is_for_writers => open_locked(path, OpenLocked::Write),
                    _ => Err(error),
                };
            }
        }
        let there = fs::symlink_metadata(path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(file);
        }
    }
}
