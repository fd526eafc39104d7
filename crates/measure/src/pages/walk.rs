//! Plans every regular file at or under given paths, in the order of names.

use super::{DirIndex, FilePlan, FileStamp, SkipReason, SkippedFiles};
use crate::error::{Error, escaped};
use crate::interrupt::Interrupt;
use crate::page::PAGE_SIZE;
use rustix::fs::{Access, access};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Selects the files that are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All files. A file that can't be read is skipped later, when its pages are read.
    All,
    /// Only readable files. Other files are skipped at once, and have no pages in the plan.
    Readable,
}

/// Plans the regular files at or under `paths`, up to `pages_max` pages. Directories are walked in
/// the order of names. A symbolic link is followed only if it is one of `paths`. If two of the
/// paths lead to a file, the file is planned twice.
///
/// # Errors
/// Fails if a path does not exist, no regular file was found, the files exceed a device's capacity,
/// or the user pressed Ctrl-C. An unreadable file under a path is added to `skipped`.
pub fn plan(
    paths: &[PathBuf],
    pages_max: Option<u64>,
    wanted: Wanted,
    skipped: &SkippedFiles,
    interrupt: &Interrupt,
) -> Result<FilePlan, Error> {
    // All paths are checked first. Otherwise an error in the second path might be reported after an
    // hour of work.
    let kinds = paths.iter().map(|path| kind(path)).collect::<Result<Vec<_>, Error>>()?;
    let (plan, pages_left) = (FilePlan::default(), pages_max.unwrap_or(u64::MAX));
    let mut walk = TreeWalk { plan, root: Path::new(""), pages_left, wanted, skipped, interrupt };
    for (path, kind) in paths.iter().zip(kinds) {
        walk.root = path;
        walk.add(None, path, path.as_os_str(), kind)?;
    }
    match paths {
        [first, others @ ..] if walk.plan.files() == 0 => {
            let others = match others.len() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            Err(Error::Failed(skipped.explain(format!(
                "no regular file at or under '{}'{others}; give files, or directories that hold \
                 some",
                escaped(first)
            ))))
        }
        _ => Ok(walk.plan),
    }
}

/// Returns the kind of a path from the command line. Opens a regular file as a test, because an
/// unreadable path from the command line is an error. An unreadable file in a directory is only
/// skipped.
fn kind(path: &Path) -> Result<FileType, Error> {
    let kind = fs::metadata(path).and_then(|metadata| match metadata.is_file() {
        true => fs::File::open(path).map(|_| metadata.file_type()),
        false => Ok(metadata.file_type()),
    });
    kind.map_err(|error| {
        Error::Failed(format!(
            "path '{}' can't be used: {error}; give a file or a directory that this user may read",
            escaped(path)
        ))
    })
}

/// Returns the error for files that exceed the capacity of any device.
fn too_large(path: &Path) -> Error {
    Error::Failed(format!(
        "more than 16 TiB under '{}', which no device holds; give a part of it",
        escaped(path)
    ))
}

/// A plan under construction.
struct TreeWalk<'a> {
    plan: FilePlan,
    /// The path from the command line that is being walked.
    root: &'a Path,
    /// The number of further pages that can be planned before the limit of the input is reached.
    pages_left: u64,
    wanted: Wanted,
    skipped: &'a SkippedFiles,
    interrupt: &'a Interrupt,
}

impl TreeWalk<'_> {
    /// Adds `name` in the directory `dir`: a file, or all files below a directory. If `dir` is
    /// `None`, `name` is a path from the command line. The maximum length of a path limits the
    /// depth of recursion.
    fn add(
        &mut self,
        dir: Option<DirIndex>,
        path: &Path,
        name: &OsStr,
        kind: FileType,
    ) -> Result<(), Error> {
        if self.pages_left == 0 {
            return Ok(());
        }
        self.interrupt.check()?;
        let root = self.root;
        let full = || too_large(root);
        if kind.is_dir() {
            let dir = self.plan.add_dir(dir, name).ok_or_else(full)?;
            for (name, kind) in self.entries(path) {
                self.add(Some(dir), &path.join(&name), &name, kind)?;
            }
        } else if kind.is_file() && self.is_wanted(path) {
            // A symbolic link is followed only if it is a path from the command line.
            let found = if dir.is_none() { fs::metadata(path) } else { path.symlink_metadata() };
            match found {
                Ok(of) => self.file(dir, name, &of).ok_or_else(full)?,
                Err(error) => self.skipped.add(SkipReason::Unreadable, path, &error),
            }
        }
        Ok(())
    }

    /// Returns the entries of a directory, sorted by name. After an error, records the error and
    /// skips the remaining entries.
    fn entries(&self, path: &Path) -> Vec<(OsString, FileType)> {
        let mut entries = Vec::new();
        let read = fs::read_dir(path).and_then(|found| {
            for entry in found {
                let entry = entry?;
                entries.push((entry.file_name(), entry.file_type()?));
            }
            Ok::<(), io::Error>(())
        });
        if let Err(error) = read {
            self.skipped.add(SkipReason::Unreadable, path, &error);
        }
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        entries
    }

    fn is_wanted(&self, path: &Path) -> bool {
        let readable = match self.wanted {
            Wanted::All => Ok(()),
            Wanted::Readable => access(path, Access::READ_OK),
        };
        if let Err(error) = readable {
            self.skipped.add(SkipReason::Unreadable, path, &error);
        }
        readable.is_ok()
    }

    /// Adds a file. Returns `None` if the plan is full.
    fn file(&mut self, dir: Option<DirIndex>, name: &OsStr, metadata: &Metadata) -> Option<()> {
        let pages = metadata.len().div_ceil(PAGE_SIZE as u64).min(self.pages_left);
        self.plan.add_file(dir, name, FileStamp::from(metadata), pages)?;
        self.pages_left -= pages;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Creates files of several sizes, and links that must not be followed.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/deep/er")).unwrap();
        fs::create_dir(dir.path().join("z")).unwrap();
        let files = [("c", 4096), ("a", 1), ("b/deep/er/x", 4097), ("b/y", 0), ("b-", 12288)];
        for (name, bytes) in files {
            fs::write(dir.path().join(name), vec![1; bytes]).unwrap();
        }
        symlink("a", dir.path().join("link")).unwrap();
        symlink("b", dir.path().join("dirlink")).unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        dir
    }

    fn planned(
        paths: &[PathBuf],
        pages_max: Option<u64>,
    ) -> Result<(FilePlan, SkippedFiles), Error> {
        let skipped = SkippedFiles::default();
        let plan = plan(paths, pages_max, Wanted::All, &skipped, &Interrupt::default())?;
        Ok((plan, skipped))
    }

    fn paths_of(plan: &FilePlan) -> Vec<PathBuf> {
        plan.parts(0..plan.pages()).map(|part| plan.path(part.file)).collect()
    }

    #[test]
    fn trees_are_walked_by_name() {
        let dir = tree();
        let (plan, skipped) = planned(&[dir.path().to_owned()], None).unwrap();
        let expected = ["a", "b/deep/er/x", "b-", "c"].map(|name| dir.path().join(name));
        assert_eq!(paths_of(&plan), expected);
        assert_eq!((plan.files(), plan.pages()), (5, 1 + 2 + 3 + 1));
        assert_eq!(skipped.count(SkipReason::Unreadable), 0);
    }

    #[test]
    fn a_link_that_is_given_is_followed() {
        let dir = tree();
        let given = ["link", "dirlink", "c"].map(|name| dir.path().join(name));
        let (plan, _) = planned(&given, None).unwrap();
        let expected = ["link", "dirlink/deep/er/x", "c"].map(|name| dir.path().join(name));
        assert_eq!(paths_of(&plan), expected);
    }

    #[test]
    fn the_limit_cuts_at_a_page() {
        let dir = tree();
        let (plan, _) = planned(&[dir.path().to_owned()], Some(4)).unwrap();
        let parts: Vec<usize> = plan.parts(0..9).map(|part| part.bytes).collect();
        assert_eq!(parts, [1, 4097, 4096]);
    }

    #[test]
    fn what_is_missing_or_no_file_is_an_error() {
        let dir = tree();
        let given = |name: &str| planned(&[dir.path().to_owned(), dir.path().join(name)], None);
        for name in ["nosuch", "dangling", "a/b"] {
            let error = given(name).unwrap_err();
            let message = error.to_string();
            assert!(message.starts_with("path '") && message.contains(name), "{message}");
        }
        let nothing = [dir.path().join("z"), PathBuf::from("/dev/null")];
        let message = planned(&nothing, None).unwrap_err().to_string();
        assert!(message.contains("/z' and 1 more"), "{message}");
    }
}
