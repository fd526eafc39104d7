//! A file that appears at its path only when it is complete (zr-X8). The file is written beside
//! that path, and then renamed.

use crate::open_file::{self, OpenLocked, PRIVATE, open_locked};
use crate::policy::FLUSH_EVERY;
use rustix::fs::{
    Access, Advice, AtFlags, CWD, Mode, OFlags, StatxAttributes, StatxFlags, access, fadvise, statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The maximum number of symbolic links that are followed for one path.
const LINKS: usize = 40;

/// A file that is being written. If an `AtomicFile` is dropped before
/// [`put_in_place`](Self::put_in_place), its file is removed.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    path: PathBuf,
    place: PathBuf,
    /// The permissions that the file will have after the rename.
    permissions: Permissions,
    /// Whether the file replaces an existing one.
    replaces: bool,
    is_placed: bool,
    /// The number of bytes written to the file, and how many of them the kernel has begun to write
    /// to disk.
    written: u64,
    flushed: u64,
}

impl AtomicFile {
    /// Creates and locks the file `.NAME.saving` beside `given`. If a killed process of this user
    /// left such a file, reuses that file. The new file gets the permissions of an existing file at
    /// `given`, else the permissions `mode`. Symbolic links at `given` are followed and kept,
    /// whether or not their target exists.
    ///
    /// # Errors
    /// The directory is missing or can't be written (ENOENT, EACCES and others). The path refers to
    /// no file (EISDIR, EINVAL) or to a mount point (EXDEV). The symbolic links at the path form a
    /// loop (ELOOP). The process is not allowed to replace the file at the path (EACCES). Another
    /// process is writing the file (EBUSY). Another user created `.NAME.saving` (EPERM).
    pub fn new(given: &Path, mode: u32) -> io::Result<Self> {
        let (place, permissions) = resolve(given)?;
        let path = beside(&place)?;
        let file = open_locked(&path, OpenLocked::Write)?;
        if file.metadata()?.nlink() != 1 {
            return Err(Errno::PERM.into());
        }
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
        file.set_len(0)?;
        let replaces = permissions.is_some();
        let permissions = permissions.unwrap_or(Permissions::from_mode(mode));
        let (is_placed, written, flushed) = (false, 0, 0);
        Ok(AtomicFile { file, path, place, permissions, replaces, is_placed, written, flushed })
    }

    /// Checks that [`new`](Self::new) and [`put_in_place`](Self::put_in_place) can succeed. Does
    /// not change the file system.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new), except EBUSY and EPERM, whose causes may be temporary.
    pub fn check(given: &Path) -> io::Result<()> {
        let (place, _) = resolve(given)?;
        let is_too_long = |error: &io::Error| error.kind() == io::ErrorKind::InvalidFilename;
        if let Some(error) = fs::symlink_metadata(beside(&place)?).err().filter(is_too_long) {
            return Err(error);
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).mode(PRIVATE).custom_flags(OFlags::TMPFILE.bits() as i32);
        match options.open(directory_of(&place)) {
            // Some file systems do not support O_TMPFILE.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                Ok(access(directory_of(&place), Access::WRITE_OK | Access::EXEC_OK)?)
            }
            made => made.map(drop),
        }
    }

    /// Returns the file, for callers that do not write sequentially.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the file durable, with its final permissions.
    ///
    /// # Errors
    /// A system call failed. The file might not be durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.set_permissions(self.permissions.clone())?;
        self.file.sync_all()
    }

    /// Renames the file to its final path.
    ///
    /// # Errors
    /// The rename failed, or the new name is not durable.
    pub fn put_in_place(mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.place)?;
        self.is_placed = true;
        File::open(directory_of(&self.place))?.sync_all()
    }

    /// Keeps an existing file at the final path as `NAME.before` if `is_wanted` returns true for
    /// that file. Returns the path of the kept file.
    pub(crate) fn keep_old(
        &self,
        is_wanted: impl FnOnce(&File) -> io::Result<bool>,
    ) -> io::Result<Option<PathBuf>> {
        if !self.replaces || !is_wanted(&open_file::to_read(&self.place)?)? {
            return Ok(None);
        }
        let mut name = self.place.file_name().ok_or(Errno::INVAL)?.to_owned();
        name.push(".before");
        let before = self.place.with_file_name(name);
        match fs::remove_file(&before) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // If the file system has no hard links, the old file is renamed. Until the new file is
        // renamed, no file exists at the final path.
        fs::hard_link(&self.place, &before).or_else(|_| fs::rename(&self.place, &before))?;
        Ok(Some(before))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        if self.written - self.flushed >= FLUSH_EVERY {
            start_writing(&self.file, self.flushed, self.written - self.flushed);
            self.flushed = self.written;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.is_placed {
            // If the removal fails, the next save reuses `.NAME.saving`.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Follows the symbolic links at `given`, and returns the last target, which need not exist.
///
/// # Errors
/// The path leads through more than 40 links or a loop of links (ELOOP). A link in a directory such
/// as `/tmp` belongs neither to this user nor to the owner of the directory (EACCES).
pub fn follow_links(given: &Path) -> io::Result<PathBuf> {
    let mut path = given.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(link) => {
                check_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(link);
            }
            // The path is not a link or does not exist. Any other error is reported by a later
            // call.
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// Checks that no other user planted the link in a sticky, world-writable directory. The kernel's
/// `protected_symlinks` applies the same rule.
fn check_link(path: &Path) -> io::Result<()> {
    let (link, dir) = (fs::symlink_metadata(path)?, fs::metadata(directory_of(path))?);
    let shared = (Mode::SVTX | Mode::WOTH).bits();
    let is_trusted = [geteuid().as_raw(), dir.uid()].contains(&link.uid());
    if dir.mode() & shared == shared && !is_trusted {
        return Err(Errno::ACCESS.into());
    }
    Ok(())
}

/// Returns the final path of the new file, and the permissions of an existing file at that path.
/// Symbolic links are kept, and will refer to the new file.
fn resolve(given: &Path) -> io::Result<(PathBuf, Option<Permissions>)> {
    if given.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Errno::ISDIR.into());
    }
    match fs::metadata(given) {
        Ok(of) if of.is_file() => {
            let place = fs::canonicalize(given)?;
            check_replaceable(&place)?;
            Ok((place, Some(of.permissions())))
        }
        Ok(of) if of.is_dir() => Err(Errno::ISDIR.into()),
        Ok(_) => Err(Errno::INVAL.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((follow_links(given)?, None)),
        Err(error) => Err(error),
    }
}

/// Checks that a rename can replace the file at `place`. Returns EXDEV for a mount point. Returns
/// EACCES for an immutable or append-only file, or for a file in another user's sticky directory.
fn check_replaceable(place: &Path) -> io::Result<()> {
    let of = statx(CWD, place, AtFlags::empty(), StatxFlags::BASIC_STATS)?;
    if of.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(Errno::XDEV.into());
    }
    let dir = fs::metadata(directory_of(place))?;
    let user = geteuid();
    let is_ours = user.is_root() || [of.stx_uid, dir.uid()].contains(&user.as_raw());
    let is_sticky = dir.mode() & Mode::SVTX.bits() != 0;
    let kept = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
    if of.stx_attributes.intersects(kept) || (is_sticky && !is_ours) {
        return Err(Errno::ACCESS.into());
    }
    Ok(())
}

/// Returns the path at which the file is written before the rename.
fn beside(place: &Path) -> io::Result<PathBuf> {
    let mut name = OsString::from(".");
    name.push(place.file_name().ok_or(Errno::INVAL)?);
    name.push(".saving");
    Ok(place.with_file_name(name))
}

fn directory_of(place: &Path) -> &Path {
    place.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Starts to write the range's dirty pages to disk, and drops the range's clean pages from the page
/// cache. Correctness does not depend on this call.
fn start_writing(file: &File, offset: u64, len: u64) {
    let _ = fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed);
}
