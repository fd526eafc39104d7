//! The file to which each process of a program appends a line when it ends.

use super::args::RunArgs;
use super::figures::Figures;
use super::live;
use crate::error::Error;
use crate::output;
use crate::text::escaped;
use procgroup::GroupSnapshot;
use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf, absolute};
use tempfile::{NamedTempFile, TempPath};

/// The maximum number of bytes that are read from the file, enough for some hundred thousand lines.
const BYTES_MAX: u64 = 64 << 20;

/// The file, and the part of it that belongs to this program.
#[derive(Debug)]
pub(super) struct StatsFile {
    path: PathBuf,
    /// The offset in bytes at which the lines of this program begin.
    begin: u64,
    /// The path of a temporary file, which is removed when this field is dropped.
    _temporary: Option<TempPath>,
}

impl StatsFile {
    /// Returns the requested file, which exists and can be written, or a temporary file. Returns
    /// `None` if no statistics are requested.
    pub(super) fn of(args: &RunArgs) -> Result<Option<Self>, Error> {
        match &args.stats_file {
            Some(path) => Self::named(path).map(Some),
            None if args.stats => Self::temporary().map(Some),
            None => Ok(None),
        }
    }

    fn named(path: &Path) -> Result<Self, Error> {
        output::check_name(path)?;
        let open = || {
            let path = absolute(path)?;
            // If the path refers to a pipe, the open must not wait for a reader.
            let mut options = OpenOptions::new();
            let file = options.append(true).create(true).custom_flags(libc::O_NONBLOCK);
            let facts = file.open(&path)?.metadata()?;
            let is_file = facts.is_file().then_some(facts.len());
            Ok((path, is_file.ok_or_else(|| io::Error::other("it is not a regular file"))?))
        };
        let (path, begin) = open().map_err(failed(path))?;
        Ok(StatsFile { path, begin, _temporary: None })
    }

    fn temporary() -> Result<Self, Error> {
        let dir = env::temp_dir();
        let made = absolute(&dir).and_then(|dir| NamedTempFile::with_prefix_in("uzram-run-", dir));
        let remedy = "name another directory by the variable TMPDIR, or give --stats-file";
        let made = made.map_err(|why| Error::of_file(&dir, "can't have a file", why, remedy))?;
        let file = made.into_temp_path();
        Ok(StatsFile { path: file.to_path_buf(), begin: 0, _temporary: Some(file) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the figures that the processes have written since this `StatsFile` was created, and
    /// the figures of killed processes.
    pub(super) fn figures(&self, seen: Option<&GroupSnapshot>) -> Result<Figures, Error> {
        let read = || {
            // If a pipe has replaced the file, the open must not wait for a writer.
            let mut options = OpenOptions::new();
            let mut file = options.read(true).custom_flags(libc::O_NONBLOCK).open(&self.path)?;
            file.seek(SeekFrom::Start(self.begin))?;
            let mut text = Vec::new();
            file.take(BYTES_MAX).read_to_end(&mut text)?;
            Ok(text)
        };
        let why = |why: io::Error| {
            let remedy = "leave it readable while the program runs";
            Error::of_file(&self.path, "can't be read", why, remedy)
        };
        let held_max = seen.map_or(0, |seen| seen.held_max);
        let unreported = seen.map(live::unreported).unwrap_or_default();
        Ok(Figures::parse(&String::from_utf8_lossy(&read().map_err(why)?), unreported, held_max))
    }
}

/// Returns the error for a file that can't be written.
fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    |why| Error::of_file(path, "can't be written", why, "give --stats-file another path")
}

/// Returns the error for a path with a comma, because a comma would end the setting that contains
/// the path.
pub(super) fn comma(path: &Path) -> Error {
    Error::Usage(format!(
        "--stats-file: there is a comma in '{}'; give a path without, or set TMPDIR to one",
        escaped(path)
    ))
}
