//! Saves devices to files, and restores devices from files.

mod backed_reads;
mod buffers;
mod format;
mod header;
mod load;
mod options;
mod read;
mod restore;
mod write;

pub(crate) use buffers::SpareBuffers;
pub use header::SavedHeader;
pub use options::{SaveOptions, SaveTo, Saved, Unreadable};
pub(crate) use restore::restore;
pub use restore::{Damage, Restored};
pub(crate) use write::save;
