//! Devices saved to files, and restored from them.

mod aside;
mod buffers;
mod format;
mod put;
mod read;
mod restore;
mod write;

pub(crate) use buffers::Kept;
pub use read::SavedHeader;
pub(crate) use restore::restore;
pub use restore::{Damage, Restored};
pub use write::Saved;
pub(crate) use write::{save_file, save_to};
