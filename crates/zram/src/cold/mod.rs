//! Jobs on data that lie long untouched: which they are chosen for, and what is done with them.
//!
//! Lock order: job, stream, slots' and blocks' entries, the store's own.

mod commit;
mod recompress;
mod select;
mod writeback;

pub use commit::WrittenBack;
pub use recompress::{Recompress, Recompressed};
pub use select::{Selection, Which};

pub(crate) use recompress::recompress;
pub(crate) use writeback::write_back;
