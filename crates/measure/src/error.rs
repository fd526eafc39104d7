//! Why nothing, or not all, could be measured. Each message is one line: the thing, and the remedy.

use crate::text::{escaped, human};
use std::fmt;
use std::io;
use std::path::PathBuf;
use zsmalloc::GeometryError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path given does not lead to anything.
    #[error("path '{}' can't be used: {source}; give a file or a directory", escaped(path))]
    Path {
        /// The path as given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is nothing to store.
    #[error(
        "no regular file at or under '{}'{}; give files, or directories that hold some",
        escaped(first), Others(*others)
    )]
    NoFile {
        /// The first path given.
        first: PathBuf,
        /// How many more there were.
        others: usize,
    },
    /// More than a device holds.
    #[error("more than 16 TiB under '{}'; bound it with --input-limit", escaped(path))]
    TooLarge {
        /// The path given that passes the bound.
        path: PathBuf,
    },
    /// What is held for each page of input, beside the device, does not fit in memory.
    #[error(
        "so much input needs {} of memory beside the device, and there is less; bound it with \
         --input-limit",
        human(*bytes as i64)
    )]
    NoRoom {
        /// Bytes needed.
        bytes: u64,
    },
    /// The codec can't do what is asked for.
    #[error("--level: {0}")]
    Level(zcomp::Error),
    /// An attribute can't have the value.
    #[error("--set: {0}")]
    Setting(zram::Error),
    /// There are no such size classes.
    #[error("{flag}: {source}")]
    Geometry {
        /// The argument that is to blame.
        flag: &'static str,
        /// What there is instead.
        source: GeometryError,
    },
    /// A choice of the kernel's geometry with the native one.
    #[error(
        "{flags}: only --geometry kernel has such options, and the geometry is native; add \
         --geometry kernel, or leave out {flags}"
    )]
    KernelOnly {
        /// The arguments, with commas.
        flags: String,
    },
    /// The codec failed.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// There can be no such backing store.
    #[error(
        "--backing '{}' can't be used: {source}; name a file that does not exist yet, or a block \
         device",
        escaped(path)
    )]
    Backing {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The device could not be saved.
    #[error("--save: {0}; a file that was there before is unchanged")]
    Save(zram::Error),
    /// What is idle could not be written back.
    #[error("--backing '{}': {source}; make room, or name another file", escaped(path))]
    WriteBack {
        /// Its path.
        path: PathBuf,
        /// What came in between.
        source: zram::Error,
    },
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[from] zram::Error),
    /// The limit was reached.
    #[error(
        "the memory limit of {limit} is reached after {stored}; \
         raise --mem-limit, or give less with --input-limit"
    )]
    Limit {
        /// The limit in words.
        limit: String,
        /// What there is.
        stored: Stored,
    },
    /// The limit of all memory was reached.
    #[error(
        "the limit of all memory, {limit}, is reached after {stored}; raise total_limit, or give \
         less with --input-limit"
    )]
    TotalLimit {
        /// The limit in words.
        limit: String,
        /// What there is.
        stored: Stored,
    },
    /// The system gives no more.
    #[error(
        "out of memory after {stored}: {source}; free memory or raise the limit, or give less with \
         --input-limit"
    )]
    OutOfMemory {
        /// What there is.
        stored: Stored,
        /// What was refused.
        source: zsmalloc::Error,
    },
    /// Pages came back changed.
    #[error("{pages} pages did not read back as written, the first in '{first}'; please report it")]
    Mismatch {
        /// How many.
        pages: u64,
        /// The file the first of them is of, escaped.
        first: String,
    },
    /// There is too little to train a dictionary with.
    #[error(
        "{given} blocks of {block} bytes, same-filled ones left out, are too few for a dictionary \
         of {size} bytes, which takes {needed}; give more files, or a smaller --size"
    )]
    TooFewBlocks {
        /// Blocks there are.
        given: usize,
        /// Blocks it takes.
        needed: usize,
        /// Bytes of a block.
        block: usize,
        /// Bytes of the dictionary.
        size: usize,
    },
    /// Blocks came back changed from a codec.
    #[error("{codec} decompressed blocks to other bytes than it had compressed; please report it")]
    Codecs {
        /// The codec's name.
        codec: &'static str,
    },
    /// A worker thread could not be had.
    #[error("thread {nth} can't be started: {source}; use fewer with --threads")]
    Thread {
        /// Which of them, from 1.
        nth: usize,
        /// What the system says.
        source: io::Error,
    },
    /// A worker thread panicked.
    #[error("a worker thread panicked; please report it")]
    Worker,
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// How far storing came, and what reading back gave.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Pages that are stored.
    pub pages: u64,
    /// Pages that were to be.
    pub planned: u64,
    /// Pages that did not read back as written.
    pub mismatches: u64,
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stored { pages, planned, mismatches } = self;
        write!(f, "{pages} of {planned} pages, ")?;
        match mismatches {
            0 => write!(f, "all of them read back as written"),
            _ => write!(f, "{mismatches} of them not read back as written"),
        }
    }
}

/// The end of a list of which only the first is named.
struct Others(usize);

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " and {} more", self.0) }
    }
}
