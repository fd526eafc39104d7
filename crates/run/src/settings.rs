//! The options with which a program starts, and the settings that the program's host receives.

use crate::refusal::Refusal;
use crate::tree::Tree;
use rustix::fs::fstat;
use rustix::stdio::stderr;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The version of this crate and of its host.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The file to which each process of the program appends its figures when the process ends.
#[derive(Clone, Copy, Debug)]
pub enum Stats<'o> {
    /// Processes write no figures.
    None,
    /// Processes write to this file.
    File(&'o Path),
    /// Processes write to a temporary file.
    Temporary,
}

/// The options with which a program starts.
#[derive(Clone, Copy, Debug)]
pub struct Options<'o> {
    /// The maximum memory of all processes together, in bytes.
    pub limit: u64,
    /// The size in bytes of a block, the unit of compression.
    pub block: usize,
    /// The name of the compression algorithm.
    pub algorithm: &'o str,
    /// The level of the compression algorithm, or `None` for the algorithm's default.
    pub level: Option<i32>,
    /// The name of the backend that detects touches of compressed memory, or `best`.
    pub backend: &'o str,
    /// Whether only the first program has a host. If so, programs that the first program executes
    /// run without a host.
    pub is_first_only: bool,
    /// Whether helpers are allowed to inject a host into a program.
    pub may_inject: bool,
    /// The file to which processes append their figures.
    pub stats: Stats<'o>,
}

impl Options<'_> {
    /// Returns the settings of the runtime in the form `NAME=VALUE`, separated by commas.
    pub(crate) fn settings(
        &self,
        host: &Path,
        tree: &Tree,
        stats: Option<&Path>,
    ) -> Result<OsString, Refusal> {
        let Options { limit, block, algorithm, backend, .. } = self;
        let mut text = format!("version={VERSION},limit={limit},block={block}");
        _ = write!(text, ",algorithm={algorithm},backend={backend},{}", tree.setting);
        if let Some(level) = self.level {
            _ = write!(text, ",level={level}");
        }
        if let Ok(stderr) = fstat(stderr()) {
            _ = write!(text, ",stderr={}:{}", stderr.st_dev, stderr.st_ino);
        }
        text += if self.is_first_only { ",first-only=1" } else { "" };
        let mut text = OsString::from(text);
        if let Some(path) = stats {
            if path.as_os_str().as_bytes().contains(&b',') {
                return Err(Refusal::comma(path));
            }
            text.push(",stats=");
            text.push(path);
        }
        text.push(if self.may_inject { ",inject=1,host=" } else { ",host=" });
        text.push(host);
        Ok(text)
    }
}
