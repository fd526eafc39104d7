//! Files that the command writes, whole or not at all.

use crate::error::{Error, long_name, out_path};
use measure::process_status::masked;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use zram::AtomicFile;

/// Checks that a file can be made there, or replaced: better now than after the work.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    AtomicFile::check(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NAMETOOLONG) => long_name(path),
        errno => {
            let is_other = matches!(errno, Some(Errno::ISDIR | Errno::INVAL));
            let other = || io::Error::other("it is not a regular file");
            out_path(path, if is_other { other() } else { error })
        }
    })
}

/// Writes a file, which `fill` does, and puts it in its place. One that is there keeps its
/// permissions; a new one has what the umask leaves of `mode`.
pub(crate) fn write(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut AtomicFile) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = failed(path);
    let mut file = AtomicFile::new(path, masked(mode)).map_err(|error| {
        failed(match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => io::Error::other("another program is writing it"),
            Some(Errno::PERM | Errno::LOOP) => {
                io::Error::other("another user put '.NAME.saving' beside it")
            }
            _ => error,
        })
    })?;
    fill(&mut file)?;
    file.sync().and_then(|()| file.put_in_place()).map_err(failed)
}

/// Returns the error that a file could not be written.
pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    |why| Error::of_file(path, "can't be written", why, "make room, or give another path")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::fs::Permissions;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), Error> {
        write(path, 0o666, |file| file.write_all(bytes).map_err(failed(path)))
    }

    #[test]
    fn files_are_replaced_whole_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, probe] = ["file", "link", "probe"].map(|name| dir.path().join(name));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(&probe, b"").unwrap();
        // One that was killed left this, for itself alone.
        fs::write(dir.path().join(".file.saving"), b"more than is written now").unwrap();
        write_bytes(&file, b"one").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"one");
        assert_eq!(mode(&file), mode(&probe), "it is not what the umask leaves");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        write_bytes(&link, b"another").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"another");
        assert_eq!(mode(&file), 0o640);
        let failure = write(&file, 0o600, |_| Err(Error::Interrupted)).unwrap_err();
        assert!(matches!(failure, Error::Interrupted) && fs::read(&file).unwrap() == b"another");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "something else is left");
    }

    #[test]
    fn what_is_written_by_one_is_refused_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        write(&file, 0o600, |first| {
            first.write_all(b"first").unwrap();
            let busy = write_bytes(&file, b"second").unwrap_err();
            assert!(busy.to_string().contains("another program is writing it"), "{busy}");
            // It is only for the moment.
            check(&file)
        })
        .unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"first");
        symlink("file", dir.path().join(".file.saving")).unwrap();
        let planted = write_bytes(&file, b"third").unwrap_err();
        assert!(planted.to_string().contains("'.NAME.saving'"), "{planted}");
        assert_eq!(fs::read(&file).unwrap(), b"first");
    }

    #[test]
    fn what_can_not_be_replaced_is_told_beforehand() {
        let dir = tempfile::tempdir().unwrap();
        let [missing, slash] = ["no/file", "no/"].map(|name| dir.path().join(name));
        for path in [dir.path(), &missing, &slash, Path::new("/dev/null"), Path::new("")] {
            let error = check(path).unwrap_err();
            assert!(error.to_string().starts_with("can't create a file at"), "{error}");
        }
        let names = |len: usize| check(&dir.path().join("x".repeat(len)));
        assert!(matches!(names(248).unwrap_err(), Error::Usage(_)));
        names(247).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
