//! Options and results of a save.

use crate::Error;
use crate::layout::byte_range;
use crate::policy::READ_PATIENCE;
use crate::try_vec::with_room;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a save handles data that can't be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// The save continues with all other data. The file and [`Saved`] list the missing slots.
    #[default]
    Skip,
    /// The save fails with the error of the read, and creates no file.
    Refuse,
}

/// The options of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// How the save handles data that can't be read.
    pub unreadable: Unreadable,
    /// The maximum time for one read of the backing store; `None` is no limit. If a read takes
    /// longer, its data count as unreadable, and so do all other data in the store until that read
    /// returns.
    pub patience: Option<Duration>,
}

impl Default for SaveOptions {
    fn default() -> Self {
        SaveOptions { unreadable: Unreadable::Skip, patience: Some(READ_PATIENCE) }
    }
}

impl SaveOptions {
    /// Returns true if the save continues after this error.
    pub(super) fn skips(&self, error: &Error) -> bool {
        let is_unread = matches!(error, Error::Backing { verb: "read", .. });
        (is_unread || error.is_damage()) && self.unreadable == Unreadable::Skip
    }
}

/// The maximum number of ranges that are listed. Memory for them is allocated before a save begins.
const RANGES: usize = 1024;

/// The result of a save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The number of slots in the file that hold data.
    pub slots: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The number of slots that could not be read, and are not in the file.
    pub lost_slots: u64,
    /// The ranges of lost slots, in bytes of the device; only the first 1024.
    pub lost: Vec<Range<u64>>,
    /// The path of the previous, complete file, if this file is incomplete and replaced it.
    pub before: Option<PathBuf>,
}

impl Saved {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Saved { lost: with_room(RANGES)?, ..Saved::default() })
    }

    /// Returns true if the file has all of the device's data.
    pub fn is_whole(&self) -> bool {
        self.lost_slots == 0
    }

    /// Returns an error if the file at `path` is incomplete, for a caller that needs all data.
    pub fn in_part(&self, path: &Path) -> Option<Error> {
        let first = self.lost.first()?.start;
        let path = path.to_string_lossy().into_owned();
        Some(Error::SavedInPart { path, slots: self.lost_slots, first })
    }

    /// Records a slot that is not in the file. Callers pass slots in ascending order.
    pub(super) fn add_lost(&mut self, slot: u32) {
        self.lost_slots += 1;
        add_range(&mut self.lost, byte_range(&(slot..slot + 1)), RANGES);
    }
}

/// Extends the last of `ranges` if `range` continues it; else adds `range`, if there are fewer than
/// `most`.
pub(super) fn add_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>, most: usize) {
    let has_room = ranges.len() < most;
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if has_room => ranges.push(range),
        _ => {}
    }
}
