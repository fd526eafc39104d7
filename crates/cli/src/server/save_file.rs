//! The file to which a disk is saved when its server ends.

use super::lock::{Lock, is_taken};
use crate::error::Error;
use crate::log::log;
use crate::output::{self, long_name, out_path};
use crate::socket_dir;
use crate::text::escaped;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zram::follow_links;

/// The save file, which is locked so that no other server uses it.
#[derive(Debug)]
pub(super) struct SaveFile {
    /// The path of the file. Symbolic links in it were resolved at the server's start.
    pub(super) path: PathBuf,
    /// The file's stamp at the server's start, or after this process's last save.
    found: Mutex<Option<FileStamp>>,
    /// True if the file must not be replaced, whatever its stamp is.
    is_protected: AtomicBool,
    /// The lock on the file, or `None` if no lock could be created.
    _lock: Option<Lock>,
}

/// Properties that differ if a file was replaced or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
}

impl From<Metadata> for FileStamp {
    fn from(of: Metadata) -> Self {
        let modified = (of.mtime(), of.mtime_nsec());
        FileStamp { file: (of.dev(), of.ino()), size: of.size(), modified }
    }
}

impl SaveFile {
    /// Locks the file at `given`, and records its stamp. Checks that the file can be written and is
    /// not one of `inputs`.
    pub(super) fn new(given: &Path, inputs: &[PathBuf]) -> Result<Arc<Self>, Error> {
        output::check(given, inputs)?;
        let path = follow_links(given).map_err(|why| out_path(given, why))?;
        let lock = match Lock::beside(&path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {
                return Err(long_name(&path));
            }
            Err(error) if !is_taken(&error) => lock_in_socket_dir(&path),
            locked => locked,
        };
        let lock = match lock {
            Ok(lock) => Some(lock),
            Err(error) if is_taken(&error) => {
                return Err(Error::Failed(format!(
                    "another running server saves to '{}' when it ends; give another path",
                    escaped(&path)
                )));
            }
            Err(why) => {
                log!(
                    "can't lock '{}' against other servers that save there: {why}; make sure that \
                     there is none",
                    escaped(&path)
                );
                None
            }
        };
        let found = Mutex::new(there(&path));
        Ok(Arc::new(SaveFile { path, found, is_protected: AtomicBool::new(false), _lock: lock }))
    }

    /// Logs a warning if the server's end will replace a file whose contents were not restored to
    /// the disk.
    pub(super) fn warn_unless(&self, restored: Option<&Path>) {
        let place = |path: &Path| fs::canonicalize(path).ok();
        if there(&self.path).is_some() && restored.and_then(place) != place(&self.path) {
            log!(
                "'{0}' exists, and this disk does not start with its contents; the server will \
                 replace it when it ends, unless you move it, or start with --restore '{0}'",
                escaped(&self.path)
            );
        }
    }

    /// Returns whether the file must not be replaced. A file is protected by
    /// [`protect`](Self::protect), or if another program has created or changed the file since the
    /// server's start.
    pub(super) fn is_protected(&self) -> bool {
        self.is_protected.load(SeqCst)
            || there(&self.path).is_some_and(|there| *self.found() != Some(there))
    }

    /// Forbids replacing the file from now on.
    pub(super) fn protect(&self) {
        self.is_protected.store(true, SeqCst);
    }

    /// Records a save of the disk to `path`. If `path` is this save file, the recorded stamp is
    /// updated.
    pub(super) fn note_saved(&self, path: &Path) {
        let saved = fs::metadata(path).ok().map(FileStamp::from);
        if saved == there(&self.path) {
            *self.found() = saved;
        }
    }

    fn found(&self) -> MutexGuard<'_, Option<FileStamp>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the stamp of the file at `path`, or `None` if the file does not exist.
fn there(path: &Path) -> Option<FileStamp> {
    fs::symlink_metadata(path).ok().map(FileStamp::from)
}

/// Locks `file` by a lock file in the directory of sockets. This lock is used if no lock file can
/// be created beside `file`. Only servers with the same directory of sockets respect this lock.
fn lock_in_socket_dir(file: &Path) -> io::Result<Lock> {
    let dir = socket_dir::create().map_err(|error| io::Error::other(error.to_string()))?;
    Lock::at(dir.join(lock_name(file)?))
}

/// Returns the name of the lock file of `file` in the directory of sockets. All paths to `file`
/// yield the same name.
fn lock_name(file: &Path) -> io::Result<String> {
    let there = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let parent = there.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::metadata(parent.unwrap_or(Path::new(".")))?;
    let mut hasher = DefaultHasher::new();
    (parent.dev(), parent.ino(), there.file_name()).hash(&mut hasher);
    Ok(format!("save-on-exit-{:016x}", hasher.finish()))
}
