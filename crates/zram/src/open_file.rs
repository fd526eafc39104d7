//! Opens files without ever blocking, even if another user has created the file at the path.

use crate::Error;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
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
        // The file is a socket, or a pipe without a reader that was opened for writing.
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
