//! Where a disk is saved when its server ends: to its file; else beside it; else where a user's state is kept. No file
//! that is there is replaced but the first.

use crate::error::{Error, escaped};
use crate::runtime;
use crate::say::say;
use serve::own::{self, Clients};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names beside a file that are tried.
const NAMES: u32 = 99;

/// A place, and why the disk can't go there if that is known before.
pub(super) struct Place {
    /// The file, or a directory for one that is not there yet.
    path: PathBuf,
    pub(super) directory: PathBuf,
    kind: Kind,
    refusal: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Beside,
    State,
}

/// All there are, for a disk that is still where it can be found.
pub(super) fn all(file: &Path) -> Vec<Place> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = parent.unwrap_or(Path::new(".")).to_owned();
    let name = file.file_name().unwrap_or("disk".as_ref());
    let place = |path: PathBuf, kind| {
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        let refusal = own::lies_on_disk(&path, Clients::Some);
        Place { path, directory, kind, refusal }
    };
    let mut places =
        vec![place(file.to_owned(), Kind::File), place(beside.join(name), Kind::Beside)];
    places.extend(state().map(|state| place(state.join(name), Kind::State)));
    places
}

/// Where a user's state is kept.
fn state() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
    state.map(|state| state.join("uzram"))
}

impl Place {
    /// The file to save to.
    ///
    /// # Errors
    /// There can be none, in words.
    pub(super) fn file(&self) -> Result<PathBuf, String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if self.kind == Kind::File {
            return Ok(self.path.clone());
        }
        if self.kind == Kind::State {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
            made.map_err(|error| format!("'{}': {error}", escaped(&self.directory)))?;
            runtime::check(&self.directory).map_err(|error| error.to_string())?;
        }
        let name = |nth: u32| {
            let mut name = self.path.clone().into_os_string();
            if nth > 0 {
                name.push(format!(".{nth}"));
            }
            PathBuf::from(name)
        };
        let is_free = |path: &PathBuf| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let first = u32::from(self.kind == Kind::Beside);
        let free = (first..=NAMES).map(name).find(is_free);
        free.ok_or_else(|| format!("'{}': no name is free there", escaped(&self.path)))
    }
}

/// A file that this process alone saves to when it ends, among those of this user.
pub(super) struct Taken {
    path: PathBuf,
    _locked: File,
}

impl Taken {
    /// Takes it; `None` where that can't be held against others.
    pub(super) fn new(file: &Path) -> Result<Option<Self>, Error> {
        let lock = runtime::made_directory()
            .map_err(|error| error.to_string())
            .and_then(|dir| Ok(dir.join(name(file).map_err(|error| error.to_string())?)));
        let path = match lock {
            Ok(path) => path,
            Err(why) => {
                say!("no other server can be kept from saving to '{}': {why}", escaped(file));
                return Ok(None);
            }
        };
        let failed = |source| Error::RuntimeDir { path: path.clone(), source };
        loop {
            let mut options = OpenOptions::new();
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            options.write(true).create(true).truncate(false).mode(0o600);
            let locked = options.custom_flags(flags.bits() as i32).open(&path).map_err(failed)?;
            match locked.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(Error::SavedByAnother { path: file.to_owned() });
                }
                Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
            }
            // Who had it may have removed it in between.
            let (ours, there) = (locked.metadata().map_err(failed)?, fs::symlink_metadata(&path));
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                return Ok(Some(Taken { path, _locked: locked }));
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Held still.
        let _ = fs::remove_file(&self.path);
    }
}

/// What the lock of a file is called, whatever leads there.
fn name(file: &Path) -> io::Result<String> {
    let there = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let parent = there.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::metadata(parent.unwrap_or(Path::new(".")))?;
    let mut hasher = DefaultHasher::new();
    (parent.dev(), parent.ino(), there.file_name()).hash(&mut hasher);
    Ok(format!("save-on-exit-{:016x}", hasher.finish()))
}
