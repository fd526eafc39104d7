//! The options and results of a save.

use crate::Error;
use crate::layout::byte_range;
use crate::policy::{LOST_RANGES_MAX, READ_PATIENCE};
use crate::try_vec::with_room;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a save handles data that can't be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// The save continues with all other data. The file and [`Saved`] list the lost slots.
    #[default]
    Skip,
    /// The save fails with the error of the read, and creates no file.
    Refuse,
}

/// The target of a save.
pub enum SaveTo<'t> {
    /// The file at this path.
    File(&'t Path),
    /// As `File`, but the function is called when the new file is durable, right before the rename.
    /// If the function returns false, an existing file remains, and the save fails with EEXIST.
    FileIf(&'t Path, &'t dyn Fn() -> bool),
    /// A writer.
    Writer(&'t mut dyn Write),
}

/// The options of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// How the save handles data that can't be read.
    pub unreadable: Unreadable,
    /// The maximum time for one read of the backing store; `None` means no limit. If a read takes
    /// longer than `patience`, its data count as unreadable. Until that read returns, all other
    /// data in the store count as unreadable, too.
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

/// The result of a save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The number of slots whose data the file contains.
    pub slots: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The number of slots that are not in the file because they could not be read.
    pub lost_slots: u64,
    /// The ranges of lost slots, as offsets in the device in bytes. At most 1024 ranges are listed.
    pub lost: Vec<Range<u64>>,
    /// The new path of the previous file. Only a complete file that an incomplete file replaced is
    /// kept.
    pub before: Option<PathBuf>,
}

impl Saved {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Saved { lost: with_room(LOST_RANGES_MAX)?, ..Saved::default() })
    }

    /// Returns true if the file contains all data of the device.
    pub fn is_whole(&self) -> bool {
        self.lost_slots == 0
    }

    /// Returns an error for the file at `path` if the file does not contain all data of the device.
    pub fn in_part(&self, path: &Path) -> Option<Error> {
        let first = self.lost.first()?.start;
        let path = path.to_string_lossy().into_owned();
        Some(Error::SavedInPart { path, slots: self.lost_slots, first })
    }

    /// Records a slot that is not in the file. Callers pass slots in ascending order.
    pub(super) fn add_lost(&mut self, slot: u32) {
        self.lost_slots += 1;
        add_range(&mut self.lost, byte_range(&(slot..slot + 1)), LOST_RANGES_MAX);
    }
}

/// Extends the last of `ranges` if `range` continues it. Otherwise, adds `range` if `ranges`
/// contains fewer than `most` ranges.
pub(super) fn add_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>, most: usize) {
    let has_room = ranges.len() < most;
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if has_room => ranges.push(range),
        _ => {}
    }
}
