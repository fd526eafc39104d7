//! A file that is written whole or not at all (zr-X8): beside its place first, then renamed there.

use super::format::{ALIGN, CHUNK_HEAD_BYTES, ChunkHead};
use crate::open_file;
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file on its way to its place.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    file: File,
    path: PathBuf,
    place: PathBuf,
    permissions: Option<Permissions>,
    /// Bytes that were written, and up to where the system was told to bring them to disk.
    written: u64,
    started: u64,
}

/// Permissions of a new file: what is saved is read by none but its user.
const PRIVATE: u32 = 0o600;

/// Bytes that are brought to disk while others are written, so that the last sync has little to
/// wait for.
const STARTED: u64 = 8 << 20;

impl AtomicFile {
    /// Begins one, which only this thread has. What another of this user left, who was killed, is
    /// taken over.
    pub(crate) fn new(given: &Path) -> io::Result<Self> {
        if given.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(Errno::ISDIR.into());
        }
        let (place, permissions) = match fs::metadata(given) {
            Ok(metadata) if metadata.is_file() => {
                // A link stays, and leads to the new file.
                (fs::canonicalize(given)?, Some(metadata.permissions()))
            }
            Ok(metadata) if metadata.is_dir() => return Err(Errno::ISDIR.into()),
            Ok(_) => return Err(Errno::INVAL.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (given.to_owned(), None),
            Err(error) => return Err(error),
        };
        let name = place.file_name().ok_or(Errno::INVAL)?;
        let mut aside = std::ffi::OsString::from(".");
        aside.push(name);
        aside.push(".saving");
        let path = place.with_file_name(aside);
        let file = open_alone(&path)?;
        file.set_len(0)?;
        Ok(AtomicFile { file, path, place, permissions, written: 0, started: 0 })
    }

    /// Makes it durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if let Some(permissions) = self.permissions.clone() {
            self.file.set_permissions(permissions)?;
        }
        self.file.sync_all()
    }

    /// Puts it in its place. A whole file that is there is kept beside it if this one is not whole;
    /// where that is.
    pub(crate) fn put_in_place(&self, is_whole: bool) -> io::Result<Option<PathBuf>> {
        let before = if is_whole { None } else { self.keep_before()? };
        fs::rename(&self.path, &self.place)?;
        let directory = self.place.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(before)
    }

    /// Gives the file that is there another name, too.
    fn keep_before(&self) -> io::Result<Option<PathBuf>> {
        if self.permissions.is_none() || !is_whole(&self.place)? {
            return Ok(None);
        }
        let mut name = self.place.file_name().ok_or(Errno::INVAL)?.to_owned();
        name.push(".before");
        let before = self.place.with_file_name(name);
        match fs::remove_file(&before) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Some file systems have no links; then there is a moment without a file of that name.
        fs::hard_link(&self.place, &before).or_else(|_| fs::rename(&self.place, &before))?;
        Ok(Some(before))
    }

    /// Leaves nothing.
    pub(crate) fn abandon(self) {
        // What stays there is taken over by the next.
        let _ = fs::remove_file(&self.path);
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        if self.written - self.started >= STARTED {
            start_writing(&self.file, self.started, self.written - self.started);
            self.started = self.written;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a file says at its end that it lacks nothing.
fn is_whole(path: &Path) -> io::Result<bool> {
    let file = open_file::to_read(path)?;
    let mut last = [0; CHUNK_HEAD_BYTES];
    let Some(at) = file.metadata()?.len().checked_sub(ALIGN as u64) else { return Ok(false) };
    file.read_exact_at(&mut last, at)?;
    Ok(ChunkHead::decode_any(&last).is_ok_and(|head| head.records == 0 && head.first == head.end))
}

/// Opens a file and locks it, as what has that name: another may have renamed it before it was
/// locked. One that someone else put there is refused, be it a link or a file that others can read
/// too.
fn open_alone(path: &Path) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(PRIVATE);
        let file = open_file::open(options, OFlags::NOFOLLOW, path).map_err(|error| {
            // No file of ours.
            let is_none = Errno::from_io_error(&error) == Some(Errno::INVAL);
            if is_none { Errno::PERM.into() } else { error }
        })?;
        file.try_lock()?;
        let (ours, there) = (file.metadata()?, fs::symlink_metadata(path));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            continue;
        }
        let is_left_by_us = ours.is_file() && ours.nlink() == 1 && ours.uid() == geteuid().as_raw();
        if !is_left_by_us {
            return Err(Errno::PERM.into());
        }
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
        return Ok(file);
    }
}

/// Has the system write what is dirty there, without waiting for it, and drop from its cache what
/// is not: both is what that advice does. Nothing depends on it.
fn start_writing(file: &File, offset: u64, len: u64) {
    let _ = fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed);
}
