//! Jobs on cold data: their selection, recompression and write-back.
//!
//! Lock order: job, stream, entries of slots and blocks, the store's own lock.

mod commit;
mod recompress;
mod select;
mod writeback;

pub use commit::WrittenBack;
pub use recompress::{Recompress, Recompressed};
pub use select::{Selection, Which};

pub(crate) use recompress::recompress;
pub(crate) use writeback::write_back;
