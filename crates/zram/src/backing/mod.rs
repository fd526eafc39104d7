//! The backing store outside memory: the file or block device, the limit of write-back, and the
//! allocation of the store's blocks.

mod file;
mod limit;
mod store;

pub use file::{Backing, BackingFile};
pub use limit::WritebackLimit;
pub use store::BdStat;

pub(crate) use limit::LimitCharge;
pub(crate) use store::{CHECKSUM_BYTES, PlaceGuard, ReadBack, Store, bytes_stored, checksum};
