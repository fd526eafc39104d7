//! The file to which each process of a program appends its figures when the process ends.

use crate::figures::Figures;
use crate::live;
use crate::policy::STATS_BYTES_MAX;
use crate::refusal::Refusal;
use crate::settings::Stats;
use procgroup::GroupSnapshot;
use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf, absolute};
use tempfile::{NamedTempFile, TempPath};

/// The file with the figures of processes, and the offset at which the figures of this program
/// begin.
#[derive(Debug)]
pub(crate) struct StatsFile {
    path: PathBuf,
    /// The offset in bytes at which the figures of this program begin.
    begin: u64,
    /// The path of a temporary file. The file is removed when this field is dropped.
    _temporary: Option<TempPath>,
}

impl StatsFile {
    /// Opens or creates the requested file, or creates a temporary file. Returns `None` if no
    /// statistics were requested.
    pub(crate) fn of(stats: Stats<'_>) -> Result<Option<Self>, Refusal> {
        match stats {
            Stats::File(path) => Self::named(path).map(Some),
            Stats::Temporary => Self::temporary().map(Some),
            Stats::None => Ok(None),
        }
    }

    fn named(path: &Path) -> Result<Self, Refusal> {
        let open = || {
            let path = absolute(path)?;
            // If the path refers to a pipe, the open must not wait for a reader of the pipe.
            let mut options = OpenOptions::new();
            let file = options.append(true).create(true).custom_flags(libc::O_NONBLOCK);
            let facts = file.open(&path)?.metadata()?;
            let is_file = facts.is_file().then_some(facts.len());
            Ok((path, is_file.ok_or_else(|| io::Error::other("it is not a regular file"))?))
        };
        let (path, begin) = open().map_err(failed(path))?;
        Ok(StatsFile { path, begin, _temporary: None })
    }

    fn temporary() -> Result<Self, Refusal> {
        let dir = env::temp_dir();
        let made = absolute(&dir).and_then(|dir| NamedTempFile::with_prefix_in("uzram-run-", dir));
        let remedy = "name another directory by the variable TMPDIR, or give --stats-file";
        let made = made.map_err(|why| Refusal::of_file(&dir, "can't have a file", why, remedy))?;
        let file = made.into_temp_path();
        Ok(StatsFile { path: file.to_path_buf(), begin: 0, _temporary: Some(file) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the figures that processes have written since this `StatsFile` was created, and the
    /// figures of processes that ended without a report.
    pub(crate) fn figures(&self, seen: Option<&GroupSnapshot>) -> Result<Figures, Refusal> {
        let read = || {
            // If a pipe has replaced the file, the open must not wait for a writer of the pipe.
            let mut options = OpenOptions::new();
            let mut file = options.read(true).custom_flags(libc::O_NONBLOCK).open(&self.path)?;
            file.seek(SeekFrom::Start(self.begin))?;
            let mut text = Vec::new();
            file.take(STATS_BYTES_MAX).read_to_end(&mut text)?;
            Ok(text)
        };
        let why = |why: io::Error| {
            let remedy = "leave it readable while the program runs";
            Refusal::of_file(&self.path, "can't be read", why, remedy)
        };
        let held_max = seen.map_or(0, |seen| seen.held_max);
        let unreported = seen.map(live::unreported).unwrap_or_default();
        Ok(Figures::parse(&String::from_utf8_lossy(&read().map_err(why)?), unreported, held_max))
    }
}

/// Returns the error for a file that can't be written.
fn failed(path: &Path) -> impl Fn(io::Error) -> Refusal {
    |why| Refusal::of_file(path, "can't be written", why, "give --stats-file another path")
}
