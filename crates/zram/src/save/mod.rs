//! Devices saved to files, and restored from them.

mod aside;
mod buffers;
mod fetch;
mod format;
mod options;
mod put;
mod read;
mod restore;
mod write;

pub(crate) use buffers::Kept;
pub use options::{SaveOptions, Saved, Unreadable};
pub use read::SavedHeader;
pub(crate) use restore::restore;
pub use restore::{Damage, Restored};
pub(crate) use write::{save_file, save_to};
