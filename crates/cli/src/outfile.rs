//! A file that is written whole or not at all: beside its place first, then renamed there.

use crate::error::Error;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Bytes of a name, at most.
const NAME_MAX: usize = 255;

/// Where a file is to go, found out and tried.
#[derive(Debug)]
pub(crate) struct OutFile {
    /// As it was given.
    given: PathBuf,
    /// What is replaced: a link that is given stays, and leads to the new file.
    path: PathBuf,
    /// Of the file that is there; else what the umask leaves.
    permissions: Option<Permissions>,
}

impl OutFile {
    /// Checks that a file can be made there. One that exists will be replaced, and keeps its
    /// permissions.
    ///
    /// # Errors
    /// There is something else than a regular file, or its directory can't be written to.
    pub(crate) fn new(given: &Path) -> Result<Self, Error> {
        let found = match fs::metadata(given) {
            Ok(metadata) if metadata.is_file() => {
                let path = fs::canonicalize(given);
                path.map(|path| (path, Some(metadata.permissions())))
            }
            Ok(_) => Err(io::Error::other("it is not a regular file")),
            Err(_) if !names_file(given) => Err(io::Error::other("it does not name a file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((given.to_owned(), None)),
            Err(error) => Err(error),
        };
        let file =
            found.map(|(path, permissions)| OutFile { given: given.to_owned(), path, permissions });
        // Better now than after the work.
        file.and_then(|file| file.beside().map(|_| file))
            .map_err(|source| Error::OutPath { path: given.to_owned(), source })
    }

    /// The same of one that a device is saved to, under a longer name at first.
    pub(crate) fn check_saved(given: &Path) -> Result<(), Error> {
        let longest = NAME_MAX - "..saving".len();
        let path = OutFile::new(given)?.path;
        if path.file_name().is_some_and(|name| name.len() > longest) {
            return Err(Error::LongName { path });
        }
        Ok(())
    }

    /// A file beside the place, which goes away unless it is renamed.
    fn beside(&self) -> io::Result<NamedTempFile> {
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let permissions = self.permissions.clone().unwrap_or(Permissions::from_mode(0o666));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".uzram-").permissions(permissions);
        builder.tempfile_in(dir.unwrap_or(Path::new("."))).map_err(|error| {
            // Nobody knows the name that was tried.
            let said = error.to_string();
            let reason = said.split(" at path \"").next().unwrap_or_default();
            io::Error::new(error.kind(), reason)
        })
    }

    /// Of a file that is not there yet, as those of `other`.
    pub(crate) fn with_privacy_of(mut self, other: &Path) -> Self {
        let permissions = || fs::metadata(other).ok().map(|metadata| metadata.permissions());
        self.permissions = self.permissions.take().or_else(permissions);
        self
    }

    /// Puts the file in its place.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        self.fill(|mut file| file.write_all(bytes).map_err(|source| self.failed(source)))
    }

    /// The same of a file that `fill` writes.
    pub(crate) fn fill(&self, fill: impl FnOnce(&File) -> Result<(), Error>) -> Result<(), Error> {
        let file = self.beside().map_err(|source| self.failed(source))?;
        fill(file.as_file())?;
        let placed = file.as_file().sync_all().and_then(|()| Ok(file.persist(&self.path)?));
        placed.map(|_| ()).map_err(|source| self.failed(source))
    }

    pub(crate) fn failed(&self, source: io::Error) -> Error {
        Error::OutFile { path: self.given.clone(), source }
    }
}

/// Whether there is a name, of what is no directory.
fn names_file(path: &Path) -> bool {
    path.file_name().is_some() && !path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_are_replaced_whole_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        OutFile::new(&file).unwrap().write(b"one").unwrap();
        assert_ne!(fs::metadata(&file).unwrap().permissions().mode() & 0o444, 0);
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        OutFile::new(&link).unwrap().write(b"another").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"another");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_can_not_be_replaced_is_told_beforehand() {
        let dir = tempfile::tempdir().unwrap();
        let [missing, slash] = ["no/file", "no/"].map(|name| dir.path().join(name));
        for path in [dir.path(), &missing, &slash, Path::new("/dev/null"), Path::new("")] {
            let error = OutFile::new(path).unwrap_err();
            assert!(matches!(error, Error::OutPath { .. }), "{error:?}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
