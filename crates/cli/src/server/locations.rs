//! The locations to which a server can save the disk at its end. The server tries the given file,
//! then a new file beside it, then a new file in the user's state directory. Only a save to the
//! given file replaces a file.

use super::lock::{Lock, is_taken};
use super::save_file::SaveFile;
use crate::policy::NAMES_MAX;
use crate::socket_dir;
use crate::text::escaped;
use serve::own::{self, Clients};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A location to which a disk can be saved.
pub(super) struct SaveLocation {
    /// The path of the file, or the path from which the names of new files are derived.
    path: PathBuf,
    pub(super) directory: PathBuf,
    kind: Kind,
    /// The reason why the disk can't be saved to this location, if it is known in advance.
    refusal: Option<String>,
}

enum Kind {
    /// The given file.
    File(Arc<SaveFile>),
    /// A new file beside the given file.
    Beside,
    /// A new file in the user's state directory.
    State,
}

/// Returns all locations. Call this function while the disk is still served, because only then can
/// a location on the disk itself be recognized.
pub(super) fn all(save_file: &Arc<SaveFile>) -> Vec<SaveLocation> {
    let file = &save_file.path;
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = parent.unwrap_or(Path::new(".")).to_owned();
    let name = file.file_name().unwrap_or("disk".as_ref());
    let location = |path: PathBuf, kind| {
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        let refusal = own::lies_on_disk(&path, Clients::Some);
        SaveLocation { path, directory, kind, refusal }
    };
    let itself = location(file.to_owned(), Kind::File(save_file.clone()));
    let mut locations = vec![itself, location(beside.join(name), Kind::Beside)];
    locations.extend(state().map(|state| location(state.join(name), Kind::State)));
    locations
}

/// Returns the directory `uzram` in the user's state directory.
fn state() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
    state.map(|state| state.join("uzram"))
}

impl SaveLocation {
    /// Returns the path to save to, and a lock that keeps other servers from this path until the
    /// file exists. The given file needs no new lock, because the server has locked it at its
    /// start.
    ///
    /// # Errors
    /// Fails with the reason if nothing can be saved to this location.
    pub(super) fn file(&self) -> Result<(PathBuf, Option<Lock>), String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if let Kind::File(save_file) = &self.kind {
            if save_file.is_protected() {
                let why = "the file was created or changed since this server started, or a restore \
                    was interrupted, so it is not replaced";
                return Err(format!("'{}': {why}", escaped(&self.path)));
            }
            return Ok((self.path.clone(), None));
        }
        if matches!(self.kind, Kind::State) {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
            made.map_err(|error| format!("'{}': {error}", escaped(&self.directory)))?;
            socket_dir::check(&self.directory).map_err(|error| error.to_string())?;
        }
        let name = |nth: u32| {
            let mut name = self.path.clone().into_os_string();
            if nth > 0 {
                name.push(format!(".{nth}"));
            }
            PathBuf::from(name)
        };
        let taken = |path: PathBuf| match Lock::beside(&path) {
            Err(error) if is_taken(&error) => None,
            // The path is checked again under the lock. Without a lock, another server can create
            // the file, so the save checks the path again before its rename.
            lock => is_free(&path).then(|| (path, lock.ok())),
        };
        let first = u32::from(matches!(self.kind, Kind::Beside));
        let free = (first..=NAMES_MAX).map(name).filter(|path| is_free(path)).find_map(taken);
        free.ok_or_else(|| {
            format!("'{}': this name and all others up to .99 are taken", escaped(&self.path))
        })
    }

    /// Returns a function that checks whether this server is allowed to replace or create `path`.
    /// [`file`](Self::file) has returned `path`. The save calls the function immediately before the
    /// rename.
    pub(super) fn is_free(&self, path: &Path) -> impl Fn() -> bool + Send + Sync + use<> {
        let path = path.to_owned();
        // With a strong reference, a save that hangs would keep the save file locked.
        let save_file = match &self.kind {
            Kind::File(save_file) => Some(Arc::downgrade(save_file)),
            Kind::Beside | Kind::State => None,
        };
        move || match &save_file {
            Some(save_file) => save_file.upgrade().is_some_and(|file| !file.is_protected()),
            None => is_free(&path),
        }
    }
}

fn is_free(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
