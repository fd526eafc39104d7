//! The file that a disk is saved to when its server ends.

use super::lock::{Lock, is_taken};
use crate::error::{Error, long_name, out_path};
use crate::log::log;
use crate::output;
use crate::socket_dir;
use measure::text::escaped;
use rustix::io::Errno;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Links one behind the other, at most.
const LINKS: usize = 40;

/// It is this process's alone, and known as it was found.
#[derive(Debug)]
pub(super) struct SaveFile {
    path: PathBuf,
    found: Mutex<Option<FileStamp>>,
    is_left: AtomicBool,
    _lock: Option<Lock>,
}

/// What tells that a file is another, or another's.
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
    /// Takes it, when it can be made there.
    pub(super) fn new(given: &Path) -> Result<Self, Error> {
        let path = resolved(given).map_err(|why| out_path(given, why))?;
        output::check(&path)?;
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
        Ok(SaveFile { path, found, is_left: AtomicBool::new(false), _lock: lock })
    }

    /// Returns where links led at the start.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is left as it is: what is there is not what was found, and would be lost.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(SeqCst)
            || there(&self.path).is_some_and(|there| *self.found() != Some(there))
    }

    /// Has it be left from now on, whatever is there.
    pub(super) fn leave(&self) {
        self.is_left.store(true, SeqCst);
    }

    /// Takes note that this process saved to a path, which may be this.
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

fn there(path: &Path) -> Option<FileStamp> {
    fs::symlink_metadata(path).ok().map(FileStamp::from)
}

/// Returns where a path leads, its last link and those behind it followed, though nothing may be
/// there yet.
pub(super) fn resolved(given: &Path) -> io::Result<PathBuf> {
    let mut path = given.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(link) => path = path.parent().unwrap_or(Path::new("")).join(link),
            // No link, or nothing, or what is told of when it is used.
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// Returns where no lock can lie beside the file: one that those with the same directory of sockets
/// find.
fn lock_in_socket_dir(file: &Path) -> io::Result<Lock> {
    let dir = socket_dir::create().map_err(|error| io::Error::other(error.to_string()))?;
    Lock::at(dir.join(lock_name(file)?))
}

/// Returns what it is called, whatever leads to the file.
fn lock_name(file: &Path) -> io::Result<String> {
    let there = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let parent = there.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::metadata(parent.unwrap_or(Path::new(".")))?;
    let mut hasher = DefaultHasher::new();
    (parent.dev(), parent.ino(), there.file_name()).hash(&mut hasher);
    Ok(format!("save-on-exit-{:016x}", hasher.finish()))
}
