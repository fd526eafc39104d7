//! Jobs on data that lie long untouched: which they are chosen for, and what is done with them.
//!
//! Lock order: job, stream, slots' and blocks' words, the store's own.

mod backing;
mod commit;
mod damaged;
mod jobs;
mod limit;
mod place;
mod recompress;
mod selection;
mod store;
mod writeback;

pub use backing::{Backing, BackingFile};
pub use damaged::DamagedLeft;
pub use jobs::{JobKind, JobStat};
pub use limit::WritebackLimit;
pub use recompress::{Recompress, Recompressed};
pub use selection::{Selection, Which};
pub use store::BdStat;
pub use writeback::WrittenBack;

pub(crate) use jobs::{Job, Jobs};
pub(crate) use place::Place;
pub(crate) use store::{Away, Fetched, SUM, Store};

use crate::Error;
use crate::buffer::with_room;
use crate::slot::{IDLE, PRIORITY};
use zsmalloc::Content;

/// An object as it was when a job looked at it.
#[derive(Debug)]
pub(crate) struct Seen {
    bytes: Vec<u8>,
    flags: u8,
}

impl Seen {
    /// Room for an object of at most `bytes` bytes.
    fn with_room(bytes: usize) -> Result<Self, Error> {
        Ok(Seen { bytes: with_room(bytes)?, flags: 0 })
    }

    fn take(&mut self, bytes: &[u8], flags: u8) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.flags = flags;
    }
}

/// Whether what a word that is locked holds is still the object of `bytes` and `flags` (zr-X1). One
/// that was read since it was chosen as an idle one is no longer it.
pub(crate) fn is_untouched(now: Content<'_>, bytes: &[u8], flags: u8, which: Which) -> bool {
    let Content::Object { bytes: now, flags: flags_now } = now else { return false };
    let is_idle = !which.is_idle() || flags_now & IDLE != 0;
    is_idle && (flags_now ^ flags) & PRIORITY == 0 && now == bytes
}
