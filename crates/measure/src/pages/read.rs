//! Reads the pages of a plan's files in batches.

use super::{FileIndex, FilePages, FilePlan, FileStamp, SkipReason, SkippedFiles};
use crate::page::PAGE_SIZE;
use rustix::fs::OFlags;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

/// The purpose for which pages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The pages are stored. All data that can be read are stored.
    Store,
    /// The pages are compared with stored pages. A file that has changed since the plan was made is
    /// left out.
    Compare,
}

/// Reads the files of a plan. A file that can't be read or has changed is added to
/// [`SkippedFiles`].
#[derive(Clone, Copy, Debug)]
pub struct PageReader<'a> {
    /// The plan whose files are read.
    pub plan: &'a FilePlan,
    /// The files that are left out of storing or of the comparison.
    pub skipped: &'a SkippedFiles,
}

impl PageReader<'_> {
    /// Reads the pages `pages` of the plan into `buf`. Fills the unused end of each file's last
    /// page with zeros. Sets `runs` to the ranges of pages to store or compare, relative to
    /// `pages.start`.
    pub fn read(
        &self,
        pages: Range<u32>,
        purpose: Purpose,
        buf: &mut [u8],
        runs: &mut Vec<Range<usize>>,
    ) {
        runs.clear();
        for part in self.plan.parts(pages) {
            if self.plan.is_left_out(part.file) {
                continue;
            }
            let part_buf = &mut buf[part.pages.start * PAGE_SIZE..part.pages.end * PAGE_SIZE];
            let pages = match purpose {
                Purpose::Store => self.store(&part, part_buf),
                Purpose::Compare => self.compare(&part, part_buf),
            };
            let (start, end) = (part.pages.start, part.pages.start + pages);
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ if pages > 0 => runs.push(start..end),
                _ => {}
            }
        }
    }

    /// Reads pages to store them. Returns true if all pages could be read.
    pub fn read_all(&self, pages: Range<u32>, buf: &mut [u8]) -> bool {
        let (count, mut runs) = (pages.len(), Vec::new());
        self.read(pages, Purpose::Store, buf, &mut runs);
        runs.iter().map(|run| run.len()).sum::<usize>() == count
    }

    /// Reads a part of a file to store it. Returns the number of pages before the first error.
    fn store(&self, part: &FilePages, buf: &mut [u8]) -> usize {
        let mut done = 0;
        let read = open(self.plan, part.file).and_then(|file| fill(&file, part, buf, &mut done));
        // Missing data are not replaced by zeros, because zeros would make the data look more
        // compressible.
        let read = read.and_then(|()| match done {
            done if done == part.bytes => Ok(()),
            _ => {
                let size = self.plan.stamp(part.file).size;
                Err(io::Error::other(format!("not all of its {size} bytes are there")))
            }
        });
        match read {
            Ok(()) => part.pages.len(),
            Err(error) => {
                self.leave_out(part.file, SkipReason::Unreadable, &error);
                done.div_ceil(PAGE_SIZE)
            }
        }
    }

    /// Reads a part of a file to compare it. Returns the number of pages to compare: all pages of
    /// the part, or 0.
    fn compare(&self, part: &FilePages, buf: &mut [u8]) -> usize {
        let mut done = 0;
        let read = open(self.plan, part.file).and_then(|file| {
            fill(&file, part, buf, &mut done)?;
            // The stamp is taken after the read, so every change before the end of the read is
            // detected.
            stamp(&file)
        });
        match read {
            Ok(stamp) if stamp == self.plan.stamp(part.file) => return part.pages.len(),
            Ok(_) => {
                self.leave_out(part.file, SkipReason::Changed, &"it changed while it was read")
            }
            Err(error) => self.leave_out(part.file, SkipReason::Changed, &error),
        }
        0
    }

    /// Leaves a file out of the comparison, and records the reason once per file.
    pub fn leave_out(&self, file: FileIndex, why: SkipReason, reason: &dyn Display) {
        if self.plan.leave_out(file) {
            self.skipped.add(why, &self.plan.path(file), reason);
        }
    }
}

/// Opens a regular file. The open does not block, even if a pipe or a device has replaced the file.
fn open(plan: &FilePlan, file: FileIndex) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(plan.path(file))?;
    stamp(&file)?;
    Ok(file)
}

/// Returns the current metadata of an open file.
fn stamp(file: &File) -> io::Result<FileStamp> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no longer a regular file"));
    }
    Ok(FileStamp::from(&metadata))
}

/// Reads a part of a file into `buf`, and adds the number of bytes read to `done`. At the end of
/// the file, or after an error, fills the remaining buffer with zeros.
fn fill(file: &File, part: &FilePages, buf: &mut [u8], done: &mut usize) -> io::Result<()> {
    let mut read = Ok(());
    while *done < part.bytes {
        match file.read_at(&mut buf[*done..part.bytes], part.offset + *done as u64) {
            Ok(0) => break,
            Ok(bytes) => *done += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                read = Err(error);
                break;
            }
        }
    }
    buf[*done..].fill(0);
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::pages::{Wanted, plan};
    use std::fs;
    use std::path::Path;

    /// Four files of 5000 bytes, two pages each.
    fn files() -> (tempfile::TempDir, FilePlan) {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c", "d"] {
            fs::write(dir.path().join(name), name.repeat(5000)).unwrap();
        }
        let paths = [dir.path().to_owned()];
        let plan = plan(&paths, None, Wanted::All, &SkippedFiles::default(), &Interrupt::default())
            .unwrap();
        (dir, plan)
    }

    fn lines(skipped: &SkippedFiles, dir: &Path) -> String {
        skipped.lines().join("\n").replace(dir.to_str().unwrap(), "")
    }

    /// A reader with the pages and runs of its last read.
    struct Reader<'a> {
        source: PageReader<'a>,
        buf: Vec<u8>,
        runs: Vec<Range<usize>>,
    }

    impl<'a> Reader<'a> {
        fn new(plan: &'a FilePlan, skipped: &'a SkippedFiles) -> Self {
            Reader {
                source: PageReader { plan, skipped },
                buf: vec![0xee; 8 * PAGE_SIZE],
                runs: Vec::new(),
            }
        }

        /// Reads pages, and returns the runs as pairs.
        fn read(&mut self, pages: Range<u32>, purpose: Purpose) -> Vec<(usize, usize)> {
            self.source.read(pages, purpose, &mut self.buf, &mut self.runs);
            self.runs.iter().map(|run| (run.start, run.end)).collect()
        }
    }

    #[test]
    fn pages_are_padded_and_runs_joined() {
        let (_dir, plan) = files();
        let skipped = SkippedFiles::default();
        let mut reader = Reader::new(&plan, &skipped);
        assert_eq!(reader.read(1..7, Purpose::Store), [(0, 6)]);
        let (buf, tail) = (&reader.buf, 5000 - PAGE_SIZE);
        assert!(buf[..tail].iter().all(|&byte| byte == b'a'));
        assert!(buf[tail..PAGE_SIZE].iter().all(|&byte| byte == 0));
        assert!(buf[PAGE_SIZE..][..5000].iter().all(|&byte| byte == b'b'));
        assert!(buf[6 * PAGE_SIZE..].iter().all(|&byte| byte == 0xee));
        assert_eq!(reader.read(1..7, Purpose::Compare), [(0, 6)]);
        assert_eq!(skipped.lines().len(), 0);
    }

    #[test]
    fn files_that_vanish_change_or_turn_to_something_else_are_left_out() {
        let (dir, plan) = files();
        let skipped = SkippedFiles::default();
        let mut reader = Reader::new(&plan, &skipped);
        fs::remove_file(dir.path().join("b")).unwrap();
        assert_eq!(reader.read(0..8, Purpose::Store), [(0, 2), (4, 8)]);
        fs::write(dir.path().join("c"), "short").unwrap();
        fs::remove_file(dir.path().join("d")).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        assert_eq!(reader.read(0..8, Purpose::Compare), [(0, 2)]);
        assert_eq!(reader.read(4..8, Purpose::Compare), []);
        let told = lines(&skipped, dir.path());
        assert!(told.starts_with("skipped '/b': No such file"), "{told}");
        assert!(told.contains("not compared '/c': it changed"), "{told}");
        assert!(told.contains("not compared '/d': "), "{told}");
        assert_eq!(
            (skipped.count(SkipReason::Unreadable), skipped.count(SkipReason::Changed)),
            (1, 2)
        );
    }

    #[test]
    fn a_file_that_becomes_shorter_does_not_become_zeros() {
        let (dir, plan) = files();
        let skipped = SkippedFiles::default();
        let mut reader = Reader::new(&plan, &skipped);
        // Now b is empty, c has 4097 bytes, and d has only its first page.
        for (name, bytes) in [("b", 0), ("c", 4097), ("d", 4096)] {
            let file = OpenOptions::new().write(true).open(dir.path().join(name)).unwrap();
            file.set_len(bytes).unwrap();
        }
        assert_eq!(reader.read(0..8, Purpose::Store), [(0, 2), (4, 7)]);
        let told = lines(&skipped, dir.path());
        let line = |name| format!("skipped '/{name}': not all of its 5000 bytes are there");
        assert_eq!(told, ["b", "c", "d"].map(line).join("\n"));
        assert_eq!(reader.read(0..8, Purpose::Store), [(0, 2)], "they are not read again");
    }

    #[test]
    fn a_fifo_is_not_waited_for() {
        let (dir, plan) = files();
        let path = dir.path().join("a");
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo (coreutils)");
        let skipped = SkippedFiles::default();
        assert_eq!(Reader::new(&plan, &skipped).read(0..2, Purpose::Store), []);
        assert_eq!(lines(&skipped, dir.path()), "skipped '/a': it is no longer a regular file");
    }
}
