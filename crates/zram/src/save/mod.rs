//! Devices saved to files, and restored from them.

mod aside;
mod format;
mod put;
mod read;
mod restore;
mod write;

pub use read::SavedHeader;
pub(crate) use restore::restore;
pub use restore::{Damage, Restored};
pub use write::Saved;
pub(crate) use write::{save_file, save_to};
