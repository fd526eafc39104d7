//! The plan of a device's contents: files in order, each beginning on a new page.
//!
//! A plan can contain millions of files, so a file takes only 32 bytes and the bytes of its name. A
//! path is composed of the names of its directories when the path is needed.
//!
//! ```text
//!   device pages | file 0 .... | file 1 . | file 3 ........ |      empty files take none
//!   names        "/usr/lib" "a.so" "sub" "b.so" ...                one run of bytes
//! ```

use crate::page::PAGE_SIZE;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The value of `parent` for a path from the command line, which has no parent directory.
const NO_DIR: u32 = u32::MAX;

/// The index of a file in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIndex(u32);

/// The index of a directory in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirIndex(u32);

/// The metadata by which a change of a file is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    /// The size of the file in bytes.
    pub(crate) size: u64,
    /// The time of the last modification in nanoseconds, modulo 2^64.
    modified: i64,
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> Self {
        let seconds = metadata.mtime().wrapping_mul(1_000_000_000);
        FileStamp { size: metadata.len(), modified: seconds.wrapping_add(metadata.mtime_nsec()) }
    }
}

#[derive(Clone, Copy, Debug)]
struct PlannedName {
    start: u32,
    len: u16,
    /// The index of the parent directory, or [`NO_DIR`].
    parent: u32,
}

#[derive(Debug)]
struct PlannedFile {
    stamp: FileStamp,
    /// The device's page that holds the start of the file.
    first_page: u32,
    name_start: u32,
    parent: u32,
    name_len: u16,
    /// Whether the file is left out of the comparison.
    is_left_out: AtomicBool,
}

const _: () = assert!(size_of::<PlannedFile>() == 32);

/// The part of a file that lies in a given range of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePages {
    /// The file.
    pub file: FileIndex,
    /// The pages of the part, relative to the start of the range. The file can fill the last page
    /// only partly.
    pub pages: Range<usize>,
    /// The offset in the file at which the part begins.
    pub offset: u64,
    /// The size of the part in bytes.
    pub bytes: usize,
}

/// The planned files, in the order in which they were added.
#[derive(Debug, Default)]
pub struct FilePlan {
    names: Vec<u8>,
    dirs: Vec<PlannedName>,
    entries: Vec<PlannedFile>,
    pages: u32,
    empty_files: u64,
}

impl FilePlan {
    /// Returns the number of pages of all files.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the number of files, including empty ones.
    pub fn files(&self) -> u64 {
        self.entries.len() as u64 + self.empty_files
    }

    /// Adds the directory `name` below `parent`. Without a parent, `name` is a path from the
    /// command line. Returns `None` if the plan is full.
    pub(crate) fn add_dir(&mut self, parent: Option<DirIndex>, name: &OsStr) -> Option<DirIndex> {
        let dir = DirIndex(u32::try_from(self.dirs.len()).ok().filter(|&dir| dir != NO_DIR)?);
        let name = self.add_name(parent, name)?;
        self.dirs.push(name);
        Some(dir)
    }

    /// Adds the first `pages` pages of a file. Returns `None` if the plan is full.
    pub(crate) fn add_file(
        &mut self,
        dir: Option<DirIndex>,
        name: &OsStr,
        stamp: FileStamp,
        pages: u64,
    ) -> Option<()> {
        debug_assert!(pages <= stamp.size.div_ceil(PAGE_SIZE as u64));
        if pages == 0 {
            self.empty_files += 1;
            return Some(());
        }
        let end = u64::from(self.pages).checked_add(pages)?;
        let end = u32::try_from(end).ok()?;
        let name = self.add_name(dir, name)?;
        self.entries.push(PlannedFile {
            stamp,
            first_page: self.pages,
            name_start: name.start,
            parent: name.parent,
            name_len: name.len,
            is_left_out: AtomicBool::new(false),
        });
        self.pages = end;
        Some(())
    }

    fn add_name(&mut self, parent: Option<DirIndex>, name: &OsStr) -> Option<PlannedName> {
        let start = u32::try_from(self.names.len()).ok()?;
        let len = u16::try_from(name.len()).ok()?;
        self.names.extend_from_slice(name.as_bytes());
        Some(PlannedName { start, len, parent: parent.map_or(NO_DIR, |dir| dir.0) })
    }

    fn entry(&self, file: FileIndex) -> &PlannedFile {
        &self.entries[file.0 as usize]
    }

    /// Returns the path of a file, beginning with a path from the command line.
    pub fn path(&self, file: FileIndex) -> PathBuf {
        let entry = self.entry(file);
        let mut name =
            PlannedName { start: entry.name_start, len: entry.name_len, parent: entry.parent };
        let mut names = vec![name];
        while name.parent != NO_DIR {
            name = self.dirs[name.parent as usize];
            names.push(name);
        }
        let bytes =
            |name: &PlannedName| &self.names[name.start as usize..][..usize::from(name.len)];
        names.iter().rev().map(|name| OsStr::from_bytes(bytes(name))).collect()
    }

    /// Returns the metadata that the file had when it was added.
    pub(crate) fn stamp(&self, file: FileIndex) -> FileStamp {
        self.entry(file).stamp
    }

    /// Leaves the file out of the comparison. Returns whether this call was the first to do so.
    pub(crate) fn leave_out(&self, file: FileIndex) -> bool {
        !self.entry(file).is_left_out.swap(true, Relaxed)
    }

    pub(crate) fn is_left_out(&self, file: FileIndex) -> bool {
        self.entry(file).is_left_out.load(Relaxed)
    }

    /// Returns the parts of files that lie in these pages, in order. Every page belongs to exactly
    /// one part.
    pub fn parts(&self, range: Range<u32>) -> impl Iterator<Item = FilePages> + '_ {
        let mut page = range.start;
        let mut index = self.entries.partition_point(|entry| entry.first_page <= page);
        std::iter::from_fn(move || {
            if page >= range.end.min(self.pages) {
                return None;
            }
            let entry = &self.entries[index - 1];
            let file_end = self.entries.get(index).map_or(self.pages, |next| next.first_page);
            let end = file_end.min(range.end);
            let offset = u64::from(page - entry.first_page) * PAGE_SIZE as u64;
            let room = (end - page) as usize * PAGE_SIZE;
            let part = FilePages {
                file: FileIndex((index - 1) as u32),
                pages: (page - range.start) as usize..(end - range.start) as usize,
                offset,
                bytes: (entry.stamp.size - offset).min(room as u64) as usize,
            };
            page = end;
            index += 1;
            Some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The maximum number of pages of a device.
    const PAGES_MAX: u32 = u32::MAX;

    fn stamp(size: u64) -> FileStamp {
        FileStamp { size, modified: 0 }
    }

    /// A plan of four files: a (1 page), empty (0 pages), sub/b (3 of 5 pages), /c (2 pages, the
    /// second partly filled).
    fn plan() -> FilePlan {
        let mut plan = FilePlan::default();
        let top = plan.add_dir(None, OsStr::new("/top")).unwrap();
        plan.add_file(Some(top), OsStr::new("a"), stamp(1), 1).unwrap();
        plan.add_file(Some(top), OsStr::new("empty"), stamp(0), 0).unwrap();
        let sub = plan.add_dir(Some(top), OsStr::new("sub")).unwrap();
        plan.add_file(Some(sub), OsStr::new("b"), stamp(20000), 3).unwrap();
        plan.add_file(None, OsStr::new("/c"), stamp(4097), 2).unwrap();
        plan
    }

    #[test]
    fn paths_are_put_together_from_names() {
        let plan = plan();
        assert_eq!((plan.files(), plan.pages()), (4, 6));
        let paths: Vec<PathBuf> = (0..3).map(|file| plan.path(FileIndex(file))).collect();
        assert_eq!(paths, [Path::new("/top/a"), Path::new("/top/sub/b"), Path::new("/c")]);
    }

    #[test]
    fn every_page_lies_in_one_part() {
        let plan = plan();
        let part =
            |file, pages, offset, bytes| FilePages { file: FileIndex(file), pages, offset, bytes };
        let all: Vec<FilePages> = plan.parts(0..6).collect();
        let (a, b, c) = (part(0, 0..1, 0, 1), part(1, 1..4, 0, 12288), part(2, 4..6, 0, 4097));
        assert_eq!(all, [a, b, c]);
        let middle: Vec<FilePages> = plan.parts(2..5).collect();
        assert_eq!(middle, [part(1, 0..2, 4096, 8192), part(2, 2..3, 0, 4096)]);
        let end: Vec<FilePages> = plan.parts(5..9).collect();
        assert_eq!(end, [part(2, 0..1, 4096, 1)]);
        assert_eq!(FilePlan::default().parts(0..256).count(), 0);
    }

    #[test]
    fn a_full_plan_takes_no_more() {
        let mut plan = plan();
        let huge = stamp(u64::MAX);
        assert!(plan.add_file(None, OsStr::new("x"), huge, u64::from(PAGES_MAX) - 5).is_none());
        assert!(plan.add_file(None, OsStr::new("x"), huge, u64::MAX / 4096).is_none());
        assert!(plan.add_file(None, OsStr::new("x"), huge, u64::from(PAGES_MAX) - 6).is_some());
        assert_eq!(plan.pages(), PAGES_MAX);
    }

    #[test]
    fn a_file_is_excluded_once() {
        let plan = plan();
        assert!(!plan.is_left_out(FileIndex(1)));
        assert!(plan.leave_out(FileIndex(1)));
        assert!(!plan.leave_out(FileIndex(1)));
        assert!(plan.is_left_out(FileIndex(1)) && !plan.is_left_out(FileIndex(0)));
    }
}
