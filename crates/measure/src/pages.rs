//! Files under paths as one sequence of pages. A plan assigns the files to pages. A reader then
//! reads the pages in batches.
//!
//! ```text
//!   paths -> walk -> FilePlan -> PageReader -> pages      what can't be read: SkippedFiles
//! ```

mod plan;
mod read;
mod skipped_files;
mod walk;

pub(crate) use plan::{DirIndex, FileStamp};
pub use plan::{FileIndex, FilePages, FilePlan};
pub use read::{PageReader, Purpose};
pub use skipped_files::{SkipReason, SkippedFiles};
pub use walk::{Wanted, plan};
