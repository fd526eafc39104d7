//! Jobs on data that lie long untouched: which they are chosen for, and what is done with them.
//!
//! Lock order: job, stream, slots' and blocks' entries, the store's own.

mod backing;
mod commit;
mod damaged;
mod job;
mod limit;
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
pub(crate) use recompress::recompress;
pub(crate) use store::{CHECKSUM_BYTES, PlaceGuard, ReadBack, Store};
pub(crate) use writeback::write_back;

use crate::Error;
use crate::slot::Flags;
use crate::try_vec::with_room;
use zsmalloc::Content;

/// An object as it was when a job looked at it.
#[derive(Debug)]
pub(crate) struct Snapshot {
    bytes: Vec<u8>,
    flags: Flags,
}

impl Snapshot {
    /// Room for an object of at most `bytes` bytes.
    fn with_room(bytes: usize) -> Result<Self, Error> {
        Ok(Snapshot { bytes: with_room(bytes)?, flags: Flags::NONE })
    }

    /// What an entry holds that has it.
    fn content(&self) -> Content<'_> {
        Content::Object { bytes: &self.bytes, flags: self.flags.bits() }
    }

    fn take(&mut self, bytes: &[u8], flags: Flags) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.flags = flags;
    }
}

/// Whether what an entry that is locked holds is still the object of `bytes` and `flags` (zr-X1).
/// One that was read since it was chosen as an idle one is no longer it.
pub(crate) fn still_equals(now: Content<'_>, bytes: &[u8], flags: Flags, which: Which) -> bool {
    let Content::Object { bytes: now_bytes, .. } = now else { return false };
    let flags_now = Flags::of(now);
    let is_idle = !which.is_idle() || flags_now.is_idle();
    is_idle && flags_now.priority() == flags.priority() && now_bytes == bytes
}
