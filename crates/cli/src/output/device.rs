//! A block device that a command writes in place.

use crate::error::Error;
use crate::text::human;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const OTHER_REMEDY: &str = "have this user write to it, or name another device";
const REMEDY: &str = "unmount it or stop what uses it, or name another device";

/// A block device that this process has opened exclusively.
#[derive(Debug)]
pub(crate) struct OutputDevice {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    bytes: u64,
}

impl OutputDevice {
    /// Opens the block device at `path`. Returns `None` if `path` is no block device.
    ///
    /// # Errors
    /// Fails if the device is one of `inputs`, this user is not allowed to write to it, or it is in
    /// use. A device in use is mounted, part of another device, swap, or opened exclusively by a
    /// program.
    pub(crate) fn open(path: &Path, inputs: &[PathBuf]) -> Result<Option<Self>, Error> {
        let Ok(found) = fs::metadata(path) else { return Ok(None) };
        if !found.file_type().is_block_device() {
            return Ok(None);
        }
        super::check_no_input(path, inputs)?;
        // With EXCL, the open fails if the kernel or a program holds the device. From now on, the
        // kernel refuses mounts and further exclusive opens.
        let flags = (OFlags::EXCL | OFlags::NONBLOCK).bits() as i32;
        let open = || {
            let mut file = File::options().write(true).custom_flags(flags).open(path)?;
            // After the metadata were read, the path can lead to another device.
            if file.metadata()?.rdev() != found.rdev() {
                return Err(Errno::AGAIN.into());
            }
            let bytes = file.seek(SeekFrom::End(0))?;
            file.rewind()?;
            Ok(OutputDevice { file, path: path.to_owned(), bytes })
        };
        open().map(Some).map_err(|error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => Error::of_file(path, "can't be written", "it is in use", REMEDY),
            _ => Error::of_file(path, "can't be written", error, OTHER_REMEDY),
        })
    }

    /// Checks that the device has at least `bytes` bytes.
    ///
    /// # Errors
    /// Fails if the device is smaller.
    pub(crate) fn check_holds(&self, bytes: u64) -> Result<(), Error> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let why = format!(
            "it has {} bytes ({}), but the disk needs {bytes} ({})",
            self.bytes,
            human(self.bytes),
            human(bytes)
        );
        Err(Error::of_file(&self.path, "is too small", why, "name a larger device"))
    }
}
