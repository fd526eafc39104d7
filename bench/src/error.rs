//! The errors of a measurement. Each message contains the affected object, the reason and the
//! remedy.

use std::io;
use std::path::{Path, PathBuf};

use measure::page::first_difference;

/// The reason why an experiment could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}; {remedy}", path.display())]
    File {
        /// The attempted operation, as a verb.
        action: &'static str,
        /// The file that the operation affects.
        path: PathBuf,
        /// The remedy that the user can apply.
        remedy: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A program that is needed to create an input is not installed.
    #[error("the program {tool} is not installed; install the package {package}")]
    ToolMissing {
        /// The program's name.
        tool: &'static str,
        /// The Debian package that contains the program.
        package: &'static str,
    },
    /// A program that creates an input failed.
    #[error("{tool} failed: {reason}; {remedy}")]
    ToolFailed {
        /// The program's name.
        tool: &'static str,
        /// The program's exit status and the end of its messages.
        reason: String,
        /// The remedy that the user can apply.
        remedy: &'static str,
    },
    /// A text did not have the expected form.
    #[error("{thing} reads {text:?}; expected {expected}")]
    Malformed {
        /// The origin of the text.
        thing: String,
        /// The text.
        text: String,
        /// The form that the text should have.
        expected: &'static str,
    },
    /// The bytes read back differ from the bytes written.
    #[error(
        "{device} gave back other bytes than were written, first at byte {offset}; no figure of it can be trusted"
    )]
    Mismatch {
        /// The device that was read.
        device: String,
        /// The offset of the first byte that differs.
        offset: u64,
    },
    /// A slot of a store does not hold the bytes that were stored in it.
    #[error(
        "slot {slot} gave back other bytes than were stored; no figure of its store can be trusted"
    )]
    Slot {
        /// The number of the slot.
        slot: u32,
    },
    /// One of the compared systems (sides) returned a wrong result. The result differs from an
    /// earlier result, or from another side's result.
    #[error(
        "side {side} answered {found:#x} where {expected:#x} was expected; its timing means nothing until that is mended"
    )]
    Answer {
        /// The side, `A` or `B`.
        side: char,
        /// The answer expected.
        expected: u64,
        /// The answer returned.
        found: u64,
    },
    /// The setup of a measurement does not permit a valid figure.
    #[error("wrong measurement: {reason}; {remedy}")]
    Setup {
        /// The error in the setup.
        reason: String,
        /// The steps that set up the measurement correctly.
        remedy: &'static str,
    },
    /// A file or a directory of an input is not as required.
    #[error(transparent)]
    Pages(#[from] measure::Error),
    /// The kernel does not report how much memory is used.
    #[error(transparent)]
    Memory(#[from] measure::memory::Untold),
    /// A codec returned an error.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// A device of uzram returned an error.
    #[error(transparent)]
    Ours(#[from] zram::Error),
    /// A region of zmem could not be created or returned an error.
    #[error(transparent)]
    Region(#[from] zmem::Error),
    /// An object cache of uzram returned an error.
    #[error(transparent)]
    Objects(#[from] slab::Error),
    /// A pool of uzram returned an error.
    #[error(transparent)]
    Pool(#[from] zsmalloc::Error),
    /// An LRU cache of uzram returned an error.
    #[error(transparent)]
    Lru(#[from] uzram::lru::Error),
    /// A device was removed during the measurement.
    #[error("{device} has been removed (a signal ends this run); start the run again")]
    DeviceGone {
        /// The device.
        device: String,
    },
}

impl Error {
    /// Returns an error if the result `found` of a side differs from `expected`.
    pub fn answer(side: char, expected: u64, found: u64) -> Result<(), Error> {
        if found == expected { Ok(()) } else { Err(Error::Answer { side, expected, found }) }
    }

    /// Returns an error if the bytes read from `offset` of a device differ from the bytes written.
    pub fn compare(device: &str, offset: u64, written: &[u8], read: &[u8]) -> Result<(), Error> {
        first_difference(written, read).map_or(Ok(()), |at| {
            Err(Error::Mismatch { device: device.to_owned(), offset: offset + at as u64 })
        })
    }

    /// Converts the error of a failed file operation, for `map_err`.
    pub fn file(
        action: &'static str,
        path: &Path,
        remedy: &'static str,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { action, path, remedy, source }
    }
}
