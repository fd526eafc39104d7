//! What can go wrong in a measurement: the thing, the reason and the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why an experiment could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation was refused.
    #[error("cannot {action} {}: {source}; {remedy}", path.display())]
    File {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the user can do about it.
        remedy: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A program that an input is made with is not installed.
    #[error("the program {tool} is not installed; install the package {package}")]
    ToolMissing {
        /// The program's name.
        tool: &'static str,
        /// Debian's package that holds it.
        package: &'static str,
    },
    /// A program that an input is made with failed.
    #[error("{tool} failed: {reason}; {remedy}")]
    ToolFailed {
        /// The program's name.
        tool: &'static str,
        /// Its exit status and the end of its messages.
        reason: String,
        /// What the user can do about it.
        remedy: &'static str,
    },
    /// A text did not have the expected form.
    #[error("{thing} reads {text:?}; expected {expected}")]
    Malformed {
        /// Where the text comes from.
        thing: String,
        /// The text.
        text: String,
        /// The form it should have had.
        expected: &'static str,
    },
    /// Bytes read back differ from the bytes written.
    #[error(
        "{device} gave back other bytes than were written, first at byte {offset}; no figure of it can be trusted"
    )]
    Mismatch {
        /// What was read from.
        device: String,
        /// First byte that differs.
        offset: u64,
    },
    /// A slot of a store holds something else than was put there.
    #[error(
        "slot {slot} gave back other bytes than were stored; no figure of its store can be trusted"
    )]
    Slot {
        /// Which slot.
        slot: u32,
    },
    /// A timed side gave another answer than before, or than its counterpart.
    #[error(
        "side {side} answered {found:#x} where {expected:#x} was expected; its timing means nothing until that is mended"
    )]
    Answer {
        /// Which side, `A` or `B`.
        side: char,
        /// The answer expected.
        expected: u64,
        /// The answer given.
        found: u64,
    },
    /// A measurement was set up in a way that cannot give a figure.
    #[error("wrong measurement: {reason}; {remedy}")]
    Setup {
        /// What is wrong with it.
        reason: String,
        /// How to set it up instead.
        remedy: &'static str,
    },
    /// There are no such files, or more than fit.
    #[error(transparent)]
    Pages(#[from] measure::Error),
    /// The kernel does not tell how much memory is taken.
    #[error(transparent)]
    Memory(#[from] measure::memory::Untold),
    /// A codec refused its work.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// Our device refused a request.
    #[error(transparent)]
    Ours(#[from] zram::Error),
    /// A region of ours could not be made, or refused a request.
    #[error(transparent)]
    Region(#[from] zmem::Error),
    /// One of our object caches refused a request.
    #[error(transparent)]
    Objects(#[from] slab::Error),
    /// Our pool refused a request.
    #[error(transparent)]
    Pool(#[from] zsmalloc::Error),
    /// A device that was being measured has been removed meanwhile.
    #[error("{device} has been removed (a signal ends this run); start the run again")]
    DeviceGone {
        /// The device.
        device: String,
    },
}

impl Error {
    /// For `map_err`: a refused file operation.
    pub fn file(
        action: &'static str,
        path: &Path,
        remedy: &'static str,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { action, path, remedy, source }
    }
}
