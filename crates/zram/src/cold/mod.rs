//! Jobs on data that lie long untouched: which they are chosen for, and what is done with them.
//!
//! Lock order: job, stream, slots' and blocks' entries, the store's own.

mod backing;
mod commit;
mod damaged;
mod job;
mod limit;
mod place;
mod recompress;
mod select;
mod store;
mod writeback;

pub use backing::{Backing, BackingFile};
pub use damaged::DamagedLeft;
pub use job::{JobKind, JobStat};
pub use limit::WritebackLimit;
pub use recompress::{Recompress, Recompressed};
pub use select::{Selection, Which};
pub use store::BdStat;
pub use writeback::WrittenBack;

pub(crate) use job::{Job, Jobs};
pub(crate) use place::BackingPlace;
pub(crate) use store::{CHECKSUM_BYTES, PlaceGuard, ReadBack, Store};

use crate::Error;
use crate::slot::{IDLE, PRIORITY};
use crate::try_vec::with_room;
use zsmalloc::Content;

/// An object as it was when a job looked at it.
#[derive(Debug)]
pub(crate) struct Snapshot {
    bytes: Vec<u8>,
    flags: u8,
}

impl Snapshot {
    /// Room for an object of at most `bytes` bytes.
    fn with_room(bytes: usize) -> Result<Self, Error> {
        Ok(Snapshot { bytes: with_room(bytes)?, flags: 0 })
    }

    fn take(&mut self, bytes: &[u8], flags: u8) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.flags = flags;
    }
}

/// Whether what an entry that is locked holds is still the object of `bytes` and `flags` (zr-X1).
/// One that was read since it was chosen as an idle one is no longer it.
pub(crate) fn still_equals(now: Content<'_>, bytes: &[u8], flags: u8, which: Which) -> bool {
    let Content::Object { bytes: now, flags: flags_now } = now else { return false };
    let is_idle = !which.is_idle() || flags_now & IDLE != 0;
    is_idle && (flags_now ^ flags) & PRIORITY == 0 && now == bytes
}
