//! Opening what someone else may have put where it is: nothing here waits, whatever it is.

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file or a block device; anything else, as a pipe that has no writer, is refused (EINVAL) and not waited for.
pub(crate) fn open(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    // Reads and writes of either are not changed by it.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(|error| {
        // A pipe that is to be written to and has no reader, or a socket.
        match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => Errno::INVAL.into(),
            _ => error,
        }
    })?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() { Ok(file) } else { Err(refusal(kind.is_dir())) }
}

fn refusal(is_directory: bool) -> io::Error {
    if is_directory { Errno::ISDIR.into() } else { Errno::INVAL.into() }
}

/// The same, to be read.
pub(crate) fn to_read(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true), OFlags::empty(), path)
}
