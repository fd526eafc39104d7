//! Opens files without blocking, even if another user created a pipe at the path. Locks files that
//! only one process at a time is allowed to use.

use crate::Error;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File, FileType, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file or a block device. For any other file, such as a pipe without a writer,
/// returns EINVAL at once.
pub(crate) fn open(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    open_if(options, flags, path, |kind| kind.is_file() || kind.is_block_device())
}

/// Opens a regular file, block device or character device for reading. Later reads from a character
/// device do not block.
pub(crate) fn to_read(path: &Path) -> io::Result<File> {
    let is_fit = |kind: FileType| kind.is_file() || kind.is_block_device() || kind.is_char_device();
    open_if(OpenOptions::new().read(true), OFlags::empty(), path, is_fit)
}

/// Opens a saved device for reading, as [`to_read`] does.
pub(crate) fn to_restore(path: &Path) -> Result<File, Error> {
    to_read(path).map_err(|error| Error::path("restore from", path, &error))
}

fn open_if(
    options: &mut OpenOptions,
    flags: OFlags,
    path: &Path,
    is_fit: impl FnOnce(FileType) -> bool,
) -> io::Result<File> {
    // O_NONBLOCK has no effect on reads and writes of regular files.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(|error| {
        // ENXIO: the file is a socket, or a pipe that has no reader and was opened for writing.
        match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => Errno::INVAL.into(),
            _ => error,
        }
    })?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    if is_fit(kind) { Ok(file) } else { Err(Errno::INVAL.into()) }
}

/// The permissions of lock files, and of files that are being written.
pub(crate) const PRIVATE: u32 = 0o600;

/// The purpose for which a locked file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenLocked {
    /// The file will be written.
    Write,
    /// The caller needs only the lock. The file is opened for reading, because an open writer would
    /// prevent a read-only remount of the file system. Only on NFS, which locks only files that are
    /// open for writing, is the file opened for writing.
    Lock,
}

/// Opens or creates the file at `path`, and locks the file. If another process renames or removes
/// the file before the lock is taken, opens the file that is then at `path`.
///
/// # Errors
/// Another process has locked the file (EBUSY). The path refers to a symbolic link, a pipe, or a
/// file of another user (EPERM).
pub fn open_locked(path: &Path, how: OpenLocked) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        options.read(how == OpenLocked::Lock).write(how == OpenLocked::Write).mode(PRIVATE);
        let flags = OFlags::CREATE | OFlags::NOFOLLOW;
        let file = open(&mut options, flags, path).map_err(|error| {
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
