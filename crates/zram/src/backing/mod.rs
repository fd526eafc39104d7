//! The backing store: its file or block device, the limit of write-back, and the allocation of the
//! store's blocks.

mod block_use;
mod file;
mod limit;
mod store;

pub use block_use::BdStat;
pub use file::{Backing, BackingFile};
pub use limit::WritebackLimit;

pub(crate) use limit::LimitCharge;
pub(crate) use store::{CHECKSUM_BYTES, PlaceGuard, ReadBack, Store, bytes_stored, checksum};
