//! Opening what someone else may have put where it is: nothing here waits, whatever it is.

use crate::Error;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file or a block device; anything else, as a pipe that has no writer, is refused (EINVAL)
/// and not waited for.
pub(crate) fn open(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    open_if(options, flags, path, |kind| kind.is_file() || kind.is_block_device())
}

/// The same, to be read; of a character device what it has at once.
pub(crate) fn to_read(path: &Path) -> io::Result<File> {
    let is_fit = |kind: FileType| kind.is_file() || kind.is_block_device() || kind.is_char_device();
    open_if(OpenOptions::new().read(true), OFlags::empty(), path, is_fit)
}

/// The same of what was saved.
pub(crate) fn to_restore(path: &Path) -> Result<File, Error> {
    to_read(path).map_err(|error| Error::path("restore from", path, &error))
}

fn open_if(
    options: &mut OpenOptions,
    flags: OFlags,
    path: &Path,
    is_fit: impl FnOnce(FileType) -> bool,
) -> io::Result<File> {
    // Reads and writes of files are not changed by it.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(|error| {
        // A pipe that is to be written to and has no reader, or a socket.
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
