//! The backing store for written-back objects: a file, a block device, or any other type that
//! implements reads and writes at offsets.

use crate::{SLOT_BYTES, open_file};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A store outside memory that holds the objects of one device. No other device can use the
/// contents of the store.
pub trait Backing: Send + Sync + Debug {
    /// Returns the store's name.
    fn name(&self) -> String;

    /// Returns the size of the store in bytes.
    fn bytes(&self) -> u64;

    /// Reads all of `buf` at `offset`.
    ///
    /// # Errors
    /// Not all of the bytes could be read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The write failed. Some of the bytes may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// The sync failed. Any of the earlier writes might not be durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file or block device.
#[derive(Debug)]
pub struct BackingFile {
    file: File,
    /// The file, opened again with O_DIRECT if the file system supports that flag. Writes through
    /// this descriptor take no memory of the page cache.
    direct: Option<File>,
    path: PathBuf,
    bytes: u64,
}

impl BackingFile {
    /// Opens an existing file or block device and locks it for this device. The previous contents
    /// of the file are lost.
    ///
    /// # Errors
    /// The path can't be opened, or another process has locked the file (EBUSY). The path refers
    /// neither to a file nor to a block device (ENOTBLK), or the file is empty (EINVAL).
    pub fn open(path: &Path) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        let flags = match () {
            () if kind.is_file() => OFlags::empty(),
            // For a block device, O_EXCL fails if the device is in use.
            () if kind.is_block_device() => OFlags::EXCL,
            () => return Err(Errno::NOTBLK.into()),
        };
        let file = open_file::open(OpenOptions::new().read(true).write(true), flags, path)?;
        Self::new(file, path)
    }

    /// Opens a block device at `path`, or creates a sparse file of `bytes` bytes.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open); or the file exists already (EEXIST).
    pub fn create(path: &Path, bytes: u64) -> io::Result<Self> {
        if std::fs::metadata(path).is_ok_and(|of| of.file_type().is_block_device()) {
            return Self::open(path);
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let made = file.set_len(bytes).and_then(|()| Self::new(file, path));
        // This call created the file, so the removal loses no data.
        made.inspect_err(|_| drop(std::fs::remove_file(path)))
    }

    fn new(mut file: File, path: &Path) -> io::Result<Self> {
        file.try_lock()?;
        let bytes = file.seek(SeekFrom::End(0))?;
        if bytes == 0 {
            return Err(Errno::INVAL.into());
        }
        // Each read is for one object, so readahead would read other objects without need.
        let _ = fadvise(&file, 0, None, Advice::Random);
        // The path in /proc refers to the open file, even if another file is at the original path
        // now.
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
                    // The disk requires a greater alignment than the buffers have.
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
