//! Files that a command writes completely or not at all, and block devices that it writes in place.
//! The command checks each target before it begins its work.
//!
//! ```text
//!   target                           a file is to be written    a device may be
//!   -                                refused: it names standard output
//!   nothing, or a dangling link      made, at the link's end
//!   a file                           replaced once the new one is durable; links to it stay
//!   an input, or a file below one    refused
//!   a directory, a pipe, a terminal  refused
//!   a file that can't be replaced    refused: a mount point, immutable, another user's in /tmp
//!   a block device                   refused                    written; refused if it is in use,
//!                                                               or too small
//! ```

mod device;

pub(crate) use device::OutputDevice;

use crate::error::Error;
use crate::process_status::masked;
use crate::text::escaped;
use rustix::io::Errno;
use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use zram::AtomicFile;

/// Checks that a file can be created or replaced at `path`, and that `path` is not one of `inputs`.
/// The inputs are files, and directories whose files are read.
///
/// # Errors
/// Fails if no file can be created at `path`, or if the file at `path` is an input.
pub(crate) fn check(path: &Path, inputs: &[PathBuf]) -> Result<(), Error> {
    check_name(path)?;
    AtomicFile::check(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NAMETOOLONG) => long_name(path),
        _ => out_path(path, reason(error)),
    })?;
    check_no_input(path, inputs)
}

/// Checks that the file at `path` is not an input and does not lie below an input.
fn check_no_input(path: &Path, inputs: &[PathBuf]) -> Result<(), Error> {
    match inputs.iter().find(|input| is_read(path, input)) {
        Some(input) if is_same(path, input) => Err(out_path(path, "it is an input")),
        Some(input) => {
            let why = format!("the file there lies below '{}', an input", escaped(input));
            Err(out_path(path, why))
        }
        None => Ok(()),
    }
}

/// Checks that a path is not `-`, which names standard output in other programs.
///
/// # Errors
/// Fails if the path is `-`.
pub(crate) fn check_name(path: &Path) -> Result<(), Error> {
    if path == Path::new("-") {
        return Err(Error::Usage(
            "'-' names standard output, and nothing is written there; give a path ('./-' for a \
             file of that name)"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Writes a new file with `fill`, and moves it to `path` when it is complete. An existing file's
/// permissions stay. If none exists, the new file gets the permissions of `mode` that the umask
/// permits.
///
/// # Errors
/// If the new file can't be written, fails and leaves an existing file unchanged.
pub(crate) fn write(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut AtomicFile) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = failed(path);
    let mut file = AtomicFile::new(path, masked(mode)).map_err(|error| failed(reason(error)))?;
    fill(&mut file)?;
    file.sync().and_then(|()| file.put_in_place()).map_err(failed)
}

pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    |why| Error::of_file(path, "can't be written", why, "make room, or give another path")
}

/// Returns the error for a path at which no file can be created.
pub(crate) fn out_path(path: &Path, why: impl Display) -> Error {
    Error::Failed(format!(
        "can't create a file at '{}': {why}; give another path, in a writable directory",
        escaped(path)
    ))
}

/// Returns the error for a path that is too long, because a save makes files with longer names
/// beside it.
pub(crate) fn long_name(path: &Path) -> Error {
    Error::Usage(format!(
        "nothing can be saved to '{}': its name is too long, as a save makes files beside it with \
         longer names; give a shorter one",
        escaped(path)
    ))
}

/// Replaces the error of [`AtomicFile`] for a refused path by a message with the reason.
fn reason(error: io::Error) -> io::Error {
    io::Error::other(match Errno::from_io_error(&error) {
        Some(Errno::ISDIR | Errno::INVAL) => "it is not a regular file",
        Some(Errno::XDEV) => "a file system is mounted on it",
        Some(Errno::LOOP) => "its symbolic links lead in a circle",
        Some(Errno::BUSY) => "another program is writing it",
        Some(Errno::PERM) => "another user's file of an unfinished save lies beside it",
        _ => return error,
    })
}

/// Returns true if the file at `path` is the input or lies below it.
fn is_read(path: &Path, input: &Path) -> bool {
    let [path_end, input_end] = [path, input].map(fs::canonicalize);
    let is_below = path_end.is_ok_and(|path| input_end.is_ok_and(|input| path.starts_with(input)));
    is_below || is_same(path, input)
}

/// Returns true if `path` and `other` lead to the same file or block device.
pub(crate) fn is_same(path: &Path, other: &Path) -> bool {
    let file = |path: &Path| {
        let of = fs::metadata(path).ok()?;
        let device = of.file_type().is_block_device().then_some((of.rdev(), 0));
        Some(device.unwrap_or((of.dev(), of.ino())))
    };
    file(path).is_some_and(|path| file(other) == Some(path))
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
        // A killed program has left this file, which only its owner is allowed to access.
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
            // The target is busy only for a moment, so the check succeeds.
            check(&file, &[])
        })
        .unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"first");
        symlink("file", dir.path().join(".file.saving")).unwrap();
        let planted = write_bytes(&file, b"third").unwrap_err();
        assert!(planted.to_string().contains("another user's file"), "{planted}");
        assert_eq!(fs::read(&file).unwrap(), b"first");
    }

    #[test]
    fn what_can_not_be_replaced_is_told_beforehand() {
        let dir = tempfile::tempdir().unwrap();
        let [missing, slash] = ["no/file", "no/"].map(|name| dir.path().join(name));
        for path in [dir.path(), &missing, &slash, Path::new("/dev/null"), Path::new("")] {
            let error = check(path, &[]).unwrap_err();
            assert!(error.to_string().starts_with("can't create a file at"), "{error}");
        }
        let names = |len: usize| check(&dir.path().join("x".repeat(len)), &[]);
        assert!(matches!(names(248).unwrap_err(), Error::Usage(_)));
        names(247).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
