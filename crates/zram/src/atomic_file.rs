//! A file that is written whole or not at all (zr-X8): beside its place first, then renamed there.

use crate::locked_file::{OpenLocked, PRIVATE, open_locked};
use crate::open_file;
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

/// Most symbolic links that are followed in a row.
const LINKS: usize = 40;

/// A file on its way to its place. Dropped before it is there, it leaves nothing.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    path: PathBuf,
    place: PathBuf,
    /// Those that it has in its place.
    permissions: Permissions,
    /// Whether it takes the place of another.
    replaces: bool,
    is_placed: bool,
    /// Bytes that were written, and up to where the system was told to bring them to disk.
    written: u64,
    flushed: u64,
}

impl AtomicFile {
    /// Begins a file that only this thread has: `.NAME.saving`, beside `given`. It takes over one
    /// that a killed process of this user left there. A file that is in the place keeps its
    /// permissions and the links that lead to it; a new one has `mode`. Symbolic links at `given`
    /// are followed, whether their target exists or not.
    ///
    /// # Errors
    /// The directory is missing or can't be written (ENOENT, EACCES ..). The path leads to
    /// something other than a file (EISDIR, EINVAL), to a mount point (EXDEV), to a file that may
    /// not be replaced (EACCES), or in a circle (ELOOP). Another process writes the file (EBUSY),
    /// or another user put something beside it (EPERM).
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

    /// Checks that [`new`](Self::new) and [`put_in_place`](Self::put_in_place) can succeed. Changes
    /// nothing.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), except EBUSY and EPERM, whose reason may pass.
    pub fn check(given: &Path) -> io::Result<()> {
        let (place, _) = resolve(given)?;
        let is_too_long = |error: &io::Error| error.kind() == io::ErrorKind::InvalidFilename;
        if let Some(error) = fs::symlink_metadata(beside(&place)?).err().filter(is_too_long) {
            return Err(error);
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).mode(PRIVATE).custom_flags(OFlags::TMPFILE.bits() as i32);
        match options.open(directory_of(&place)) {
            // Some file systems have no files without names.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                Ok(access(directory_of(&place), Access::WRITE_OK | Access::EXEC_OK)?)
            }
            made => made.map(drop),
        }
    }

    /// Returns the file, for a caller that writes it in another order.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes it durable, with the permissions that it has in its place.
    ///
    /// # Errors
    /// It is not durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.set_permissions(self.permissions.clone())?;
        self.file.sync_all()
    }

    /// Puts it in its place.
    ///
    /// # Errors
    /// It is not there; or it is, and its name is not durable.
    pub fn put_in_place(mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.place)?;
        self.is_placed = true;
        File::open(directory_of(&self.place))?.sync_all()
    }

    /// Gives the file that it takes the place of another name too, if that `is_wanted`; which.
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
        // Some file systems have no links; then there is a moment without a file of that name.
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
            // What stays there is taken over by the next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Follows the symbolic link that a path ends in, and further ones that this leads to. The last
/// target need not exist.
///
/// # Errors
/// The links lead in a circle, or are more than 40 (ELOOP). A link lies in a directory such as
/// `/tmp`, and belongs neither to this user nor to the owner of the directory (EACCES).
pub fn follow_links(given: &Path) -> io::Result<PathBuf> {
    let mut path = given.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(link) => {
                check_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(link);
            }
            // No link, nothing, or an error that the use of the path will report.
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// Checks that another user did not plant a link in a sticky directory that all may write to: the
/// rule of the kernel's `protected_symlinks`.
fn check_link(path: &Path) -> io::Result<()> {
    let (link, dir) = (fs::symlink_metadata(path)?, fs::metadata(directory_of(path))?);
    let shared = (Mode::SVTX | Mode::WOTH).bits();
    let is_trusted = [geteuid().as_raw(), dir.uid()].contains(&link.uid());
    if dir.mode() & shared == shared && !is_trusted {
        return Err(Errno::ACCESS.into());
    }
    Ok(())
}

/// Returns the place of the new file, and the permissions of the file that is there. Links stay,
/// and lead to the new file.
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

/// Checks that a rename can replace the file at `place`: that it is no mount point (EXDEV), is
/// neither immutable nor append-only, and lies in no sticky directory of other users (EACCES).
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

/// Returns where it is written first.
fn beside(place: &Path) -> io::Result<PathBuf> {
    let mut name = OsString::from(".");
    name.push(place.file_name().ok_or(Errno::INVAL)?);
    name.push(".saving");
    Ok(place.with_file_name(name))
}

fn directory_of(place: &Path) -> &Path {
    place.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Has the system write what is dirty there, without waiting for it, and drop from its cache what
/// is not: both is what that advice does. Nothing depends on it.
fn start_writing(file: &File, offset: u64, len: u64) {
    let _ = fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed);
}
