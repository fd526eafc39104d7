//! Options and results of a save.

use crate::Error;
use crate::layout::byte_range;
use crate::policy::READ_PATIENCE;
use crate::try_vec::with_room;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a save does about data that can't be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// The save goes on with all other data. The file lists what it lacks, and so does [`Saved`].
    #[default]
    Skip,
    /// The save fails with that error, and makes no file.
    Refuse,
}

/// The options of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// What the save does about data that can't be read.
    pub unreadable: Unreadable,
    /// How long one read of the backing store may take; with `None` there is no limit. If a read
    /// takes longer, its data count as unreadable, and so do all other data in the store until that
    /// read returns.
    pub patience: Option<Duration>,
}

impl Default for SaveOptions {
    fn default() -> Self {
        SaveOptions { unreadable: Unreadable::Skip, patience: Some(READ_PATIENCE) }
    }
}

impl SaveOptions {
    /// Returns whether the save goes on after this error.
    pub(super) fn skips(&self, error: &Error) -> bool {
        let is_unread = matches!(error, Error::Backing { verb: "read", .. });
        (is_unread || error.is_damage()) && self.unreadable == Unreadable::Skip
    }
}

/// Most ranges that are listed; memory for them is allocated before a save begins.
const RANGES: usize = 1024;

/// The result of a save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Slots that hold data, and are in the file.
    pub slots: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Slots that could not be read, and are not in the file.
    pub lost_slots: u64,
    /// The ranges of lost slots, in bytes of the device; the first 1024.
    pub lost: Vec<Range<u64>>,
    /// Where the previous, complete file is now, if this one lacks something and took its place.
    pub before: Option<PathBuf>,
}

impl Saved {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Saved { lost: with_room(RANGES)?, ..Saved::default() })
    }

    /// Returns whether the file has all of the device's data.
    pub fn is_whole(&self) -> bool {
        self.lost_slots == 0
    }

    /// Returns an incomplete save as an error, for a caller that needs all data: the file at `path`
    /// exists, but lacks some.
    pub fn in_part(&self, path: &Path) -> Option<Error> {
        let first = self.lost.first()?.start;
        let path = path.to_string_lossy().into_owned();
        Some(Error::SavedInPart { path, slots: self.lost_slots, first })
    }

    /// Records a slot that is not in the file. Slots come in ascending order.
    pub(super) fn add_lost(&mut self, slot: u32) {
        self.lost_slots += 1;
        add_range(&mut self.lost, byte_range(&(slot..slot + 1)), RANGES);
    }
}

/// Extends the last of `ranges` if `range` continues it; else adds it, if there are fewer than
/// `most`.
pub(super) fn add_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>, most: usize) {
    let has_room = ranges.len() < most;
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if has_room => ranges.push(range),
        _ => {}
    }
}
