//! What lies outside memory: the file or block device, how much may be written to it, which of its
//! blocks are used.

mod file;
mod limit;
mod store;

pub use file::{Backing, BackingFile};
pub use limit::WritebackLimit;
pub use store::BdStat;

pub(crate) use limit::LimitCharge;
pub(crate) use store::{CHECKSUM_BYTES, PlaceGuard, ReadBack, Store, bytes_stored, checksum};
