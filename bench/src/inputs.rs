//! The shared real inputs: pages of a live heap, of a source tree, of an installed system.
//!
//! An input is created once and kept in a [`Cache`]. A [`PageSet`] reads an input in batches, or
//! loads the whole input.

mod cache;
mod heap;
mod pageset;
mod source;

pub use cache::Cache;
pub use pageset::{FileSpan, PageSet, PageStream};
pub use source::REMOVAL_ORDER;

use clap::ValueEnum;

use crate::Error;
use crate::size::GIB;

/// A real input that all experiments share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Input {
    /// Private anonymous memory of a CPython process that holds the syntax trees of its standard
    /// library.
    Heap,
    /// Debian's Linux source tree, file by file, each padded to whole pages.
    Source,
    /// Regular files of /usr/lib and /usr/share, each padded to whole pages.
    System,
}

/// Returns the directory of the Linux source tree. If the cache lacks the tree, creates it.
pub fn source_tree(cache: &Cache) -> Result<std::path::PathBuf, Error> {
    source::ensure(cache)
}

impl Input {
    /// All inputs, in the order of figures.
    pub const ALL: [Input; 3] = [Input::Heap, Input::Source, Input::System];

    /// Returns the input's name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Input::Heap => "heap",
            Input::Source => "source",
            Input::System => "system",
        }
    }

    /// Returns the maximum number of bytes that are used by default.
    pub fn limit_default(self) -> u64 {
        match self {
            Input::Heap => u64::MAX,
            Input::Source | Input::System => GIB,
        }
    }

    /// Returns all pages of the input. If the cache lacks the input, creates it.
    /// [`PageSet::capped`] limits the pages.
    pub fn open(self, cache: &Cache) -> Result<PageSet, Error> {
        match self {
            Input::Heap => PageSet::of_file(&heap::ensure(cache)?),
            Input::Source => PageSet::of_tree(&source::ensure(cache)?, &[]),
            Input::System => PageSet::of_tree(std::path::Path::new("/usr"), &["lib", "share"]),
        }
    }
}
