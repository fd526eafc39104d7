//! What objects are written back to: a file or a block device, or anything else that is read and
//! written at offsets.

use crate::{SLOT_BYTES, open_file};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A store outside memory, which one device has alone. What it holds means nothing to another.
pub trait Backing: Send + Sync + Debug {
    /// Returns what it is called.
    fn name(&self) -> String;

    /// Returns the bytes that it has.
    fn bytes(&self) -> u64;

    /// Reads all of `buf` at `offset`.
    ///
    /// # Errors
    /// It is not all there, or can't be read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Some of it may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Has all that was written be durable.
    ///
    /// # Errors
    /// Any of it may not be.
    fn sync(&self) -> io::Result<()>;
}

/// A file or block device.
#[derive(Debug)]
pub struct BackingFile {
    file: File,
    /// The same for what goes past the page cache, where that can be: so to give memory back takes
    /// none.
    direct: Option<File>,
    path: PathBuf,
    bytes: u64,
}

impl BackingFile {
    /// Opens one that is there, for this device alone; its contents are lost.
    ///
    /// # Errors
    /// It can't be opened, or another has it (EBUSY); it is neither a file nor a block device
    /// (ENOTBLK), or has no bytes (EINVAL).
    pub fn open(path: &Path) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        let flags = match () {
            () if kind.is_file() => OFlags::empty(),
            // Of a block device it says that no one else may have it.
            () if kind.is_block_device() => OFlags::EXCL,
            () => return Err(Errno::NOTBLK.into()),
        };
        let file = open_file::open(OpenOptions::new().read(true).write(true), flags, path)?;
        Self::new(file, path)
    }

    /// Makes a file of so many bytes, which are taken from the file system as they are written; or
    /// opens a block device.
    ///
    /// # Errors
    /// As [`open`](Self::open); or there is a file already (EEXIST).
    pub fn create(path: &Path, bytes: u64) -> io::Result<Self> {
        if std::fs::metadata(path).is_ok_and(|of| of.file_type().is_block_device()) {
            return Self::open(path);
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let made = file.set_len(bytes).and_then(|()| Self::new(file, path));
        // It was made here, and nobody wants it empty.
        made.inspect_err(|_| drop(std::fs::remove_file(path)))
    }

    fn new(mut file: File, path: &Path) -> io::Result<Self> {
        file.try_lock()?;
        let bytes = file.seek(SeekFrom::End(0))?;
        if bytes == 0 {
            return Err(Errno::INVAL.into());
        }
        // What is read is one object, and nothing of what is beside it.
        let _ = fadvise(&file, 0, None, Advice::Random);
        // By its descriptor: that is the file it is, whatever its name names by now.
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        let direct = OFlags::DIRECT.bits() as i32;
        let direct = OpenOptions::new().write(true).custom_flags(direct).open(same).ok();
        Ok(BackingFile { file, direct, path: path.to_owned(), bytes })
    }
}

impl Backing for BackingFile {
    fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let is_whole = |at: usize| at.is_multiple_of(SLOT_BYTES);
        match &self.direct {
            Some(direct) if is_whole(bytes.len()) && is_whole(bytes.as_ptr().addr()) => {
                match direct.write_all_at(bytes, offset) {
                    // A disk of larger sectors than that.
                    Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
                    done => return done,
                }
            }
            _ => {}
        }
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
