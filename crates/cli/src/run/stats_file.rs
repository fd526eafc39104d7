//! The file that each process of a program appends a line to when it ends.

use super::args::RunArgs;
use super::figures::Figures;
use super::live;
use crate::error::Error;
use measure::output;
use measure::text::escaped;
use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf, absolute};
use tempfile::{NamedTempFile, TempPath};
use zmem::Seen;

/// Most bytes that are read back: the lines of some hundred thousand processes.
const BYTES_MAX: u64 = 64 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct StatsFile {
    path: PathBuf,
    /// Where this program's lines begin.
    begin: u64,
    /// Removes it in the end.
    _temporary: Option<TempPath>,
}

impl StatsFile {
    /// Returns the file that is asked for, which is there and can be written, or a temporary one;
    /// `None` where nobody wants it.
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
            // A pipe would have this wait for a reader.
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

    /// Returns what the processes have written since this was made, and the figures of processes
    /// that were killed.
    pub(super) fn figures(&self, seen: Option<&Seen>) -> Result<Figures, Error> {
        let read = || {
            // A pipe that was put there would have this wait for a writer.
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
        let killed = seen.map(live::killed).unwrap_or_default();
        Ok(Figures::parse(&String::from_utf8_lossy(&read().map_err(why)?), killed, held_max))
    }
}

/// Returns the error that it can't be written.
fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    |why| Error::of_file(path, "can't be written", why, "give --stats-file another path")
}

/// There is a comma in the path, which the runtime would take for its end.
pub(super) fn comma(path: &Path) -> Error {
    Error::Usage(format!(
        "--stats-file: there is a comma in '{}'; give a path without, or set TMPDIR to one",
        escaped(path)
    ))
}
