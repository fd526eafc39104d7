//! Regular files below a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::Error;

const REMEDY: &str = "make it readable, or leave this input out";

/// A file below a root.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// Its path from the root on.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// The readable, non-empty regular files under `root`, or under `dirs` of it, in the order of their
/// paths. Symbolic links are not followed; what may not be read is left out.
pub(super) fn files(root: &Path, dirs: &[&str]) -> Result<Vec<Found>, Error> {
    // A root that is missing is an error; a directory below it may vanish while we look.
    fs::read_dir(root).map_err(Error::file("list", root, REMEDY))?;
    let mut todo: Vec<PathBuf> = dirs.iter().map(PathBuf::from).collect();
    if dirs.is_empty() {
        todo.push(PathBuf::new());
    }
    let mut found = Vec::new();
    while let Some(dir) = todo.pop() {
        let place = root.join(&dir);
        let Some(entries) = passable(fs::read_dir(&place), &place)? else { continue };
        for entry in entries {
            let Some(entry) = passable(entry, &place)? else { continue };
            let path = dir.join(entry.file_name());
            let Some(kind) = passable(entry.file_type(), &place)? else { continue };
            if kind.is_dir() {
                todo.push(path);
            } else if kind.is_file() {
                let Some(bytes) = passable(entry.metadata(), &place)?.map(|data| data.len()) else {
                    continue;
                };
                if bytes > 0 && access(entry.path(), Access::READ_OK).is_ok() {
                    found.push(Found { path, bytes });
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

fn passable<T>(result: io::Result<T>, place: &Path) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(Error::file("list", place, REMEDY)(error)),
    }
}
