//! How a device is saved, and what was.

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
    /// All else is saved. The file names what it lacks, and so does [`Saved`].
    #[default]
    Skip,
    /// Nothing is saved, and the fault is the error.
    Refuse,
}

/// How a device is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// What is done about data that can't be read.
    pub unreadable: Unreadable,
    /// How long one read of the backing store may take; `None` is as long as it takes. What is not
    /// there by then can't be read, nor can anything else that is in the store until that read has
    /// come to an end.
    pub patience: Option<Duration>,
}

impl Default for SaveOptions {
    fn default() -> Self {
        SaveOptions { unreadable: Unreadable::Skip, patience: Some(READ_PATIENCE) }
    }
}

impl SaveOptions {
    /// Returns whether the save goes on in spite of this.
    pub(super) fn skips(&self, error: &Error) -> bool {
        let is_unread = matches!(error, Error::Backing { verb: "read", .. });
        (is_unread || error.is_damage()) && self.unreadable == Unreadable::Skip
    }
}

/// Ranges that are named, at most: room for them is made before a save begins.
const RANGES: usize = 1024;

/// What was saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Slots that hold something, and are in the file.
    pub slots: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Slots that could not be read, and are not in the file.
    pub lost_slots: u64,
    /// The ranges of the device in bytes that they are, the first 1024.
    pub lost: Vec<Range<u64>>,
    /// Where the whole file is now that this one took the place of, if this one lacks something.
    pub before: Option<PathBuf>,
}

impl Saved {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Saved { lost: with_room(RANGES)?, ..Saved::default() })
    }

    /// Returns whether everything is in the file.
    pub fn is_whole(&self) -> bool {
        self.lost_slots == 0
    }

    /// Returns this outcome as an error, for a caller that needs all of it: there is a file at
    /// `path`, and it is not whole.
    pub fn in_part(&self, path: &Path) -> Option<Error> {
        let first = self.lost.first()?.start;
        let path = path.to_string_lossy().into_owned();
        Some(Error::SavedInPart { path, slots: self.lost_slots, first })
    }

    /// A slot is not in the file; they come in order.
    pub(super) fn add_lost(&mut self, slot: u32) {
        self.lost_slots += 1;
        add_range(&mut self.lost, byte_range(&(slot..slot + 1)), RANGES);
    }
}

/// Adds a range to those before it, of which there may be `most`: what it goes on, or another.
pub(super) fn add_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>, most: usize) {
    let has_room = ranges.len() < most;
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if has_room => ranges.push(range),
        _ => {}
    }
}
