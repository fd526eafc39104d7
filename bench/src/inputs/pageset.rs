//! The pages of files, in a fixed order, read batch by batch.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use measure::Interrupt;
use measure::page::PAGE_SIZE;
use measure::pages::{self, FilePlan, PageReader, SkippedFiles, Wanted};

use crate::Error;
use crate::aligned::AlignedBuf;

/// A file and its pages, of which the last is padded with zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpan {
    /// The path below the set's root.
    pub path: PathBuf,
    /// The number of bytes of the file that are used.
    pub bytes: u64,
    /// The number of the file's first page in the set.
    pub first_page: u64,
    /// The number of the file's pages.
    pub page_count: u64,
}

impl FileSpan {
    /// Returns the name of the file's top-level directory, or "" if the file is in the root itself.
    fn top(&self) -> String {
        let mut parts = self.path.components();
        match (parts.next(), parts.next()) {
            (Some(first), Some(_)) => first.as_os_str().to_string_lossy().into_owned(),
            _ => String::new(),
        }
    }

    /// Returns the numbers of the file's pages in the set.
    pub fn pages(&self) -> Range<u64> {
        self.first_page..self.first_page + self.page_count
    }
}

/// Files as one sequence of pages.
#[derive(Debug, Clone)]
pub struct PageSet {
    plan: Arc<FilePlan>,
    spans: Vec<FileSpan>,
}

impl PageSet {
    /// Returns the set of the readable files under `root`, sorted by path. If `dirs` is not empty,
    /// the set contains only files under these directories of `root`.
    pub fn of_tree(root: &Path, dirs: &[&str]) -> Result<PageSet, Error> {
        match dirs {
            [] => PageSet::of(root, &[root.to_path_buf()]),
            _ => PageSet::of(root, &dirs.iter().map(|dir| root.join(dir)).collect::<Vec<_>>()),
        }
    }

    /// Returns the set that consists of the pages of one file.
    pub fn of_file(path: &Path) -> Result<PageSet, Error> {
        PageSet::of(path.parent().unwrap_or(Path::new("/")), &[path.to_path_buf()])
    }

    fn of(root: &Path, paths: &[PathBuf]) -> Result<PageSet, Error> {
        let skipped = SkippedFiles::default();
        let plan = pages::plan(paths, None, Wanted::Readable, &skipped, &Interrupt::default())?;
        skipped.lines().iter().for_each(|line| eprintln!("bench: {line}"));
        let spans = plan.parts(0..plan.pages()).map(|file| {
            let path = plan.path(file.file);
            FileSpan {
                path: path.strip_prefix(root).unwrap_or(&path).to_path_buf(),
                bytes: file.bytes as u64,
                first_page: file.pages.start as u64,
                page_count: file.pages.len() as u64,
            }
        });
        let spans = spans.collect();
        Ok(PageSet { plan: Arc::new(plan), spans })
    }

    /// Shortens the set to the whole pages in its first `bytes` bytes.
    pub fn capped(mut self, bytes: u64) -> PageSet {
        let pages = bytes / PAGE_SIZE as u64;
        self.spans.retain(|span| span.first_page < pages);
        if let Some(last) = self.spans.last_mut() {
            last.page_count = last.page_count.min(pages - last.first_page);
            last.bytes = last.bytes.min(last.page_count * PAGE_SIZE as u64);
        }
        self
    }

    /// Returns the number of pages.
    pub fn page_count(&self) -> u64 {
        self.spans.last().map_or(0, |last| last.pages().end)
    }

    /// Returns the files in the order of their pages.
    pub fn spans(&self) -> &[FileSpan] {
        &self.spans
    }

    /// Returns the top-level directories in the order of their first pages; "" stands for files in
    /// the root itself.
    pub fn groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = Vec::new();
        for name in self.spans.iter().map(FileSpan::top) {
            if !groups.contains(&name) {
                groups.push(name);
            }
        }
        groups
    }

    /// Returns the files in the top-level directory `name`, or none if it does not exist.
    pub fn spans_in(&self, name: &str) -> impl Iterator<Item = &FileSpan> {
        self.spans.iter().filter(move |span| span.top() == name)
    }

    /// Returns a reader that begins at the first page.
    pub fn stream(&self) -> PageStream<'_> {
        PageStream { set: self, page: 0 }
    }

    /// Loads all pages into memory that is aligned for direct I/O. The caller should cap a large
    /// set first.
    pub fn load(&self) -> Result<AlignedBuf, Error> {
        let pages = usize::try_from(self.page_count()).unwrap_or(usize::MAX);
        let bytes = pages.checked_mul(PAGE_SIZE).ok_or_else(|| Error::Setup {
            reason: format!("{pages} pages do not fit into memory"),
            remedy: "give a --limit",
        })?;
        let mut data = AlignedBuf::zeroed(bytes);
        let mut stream = self.stream();
        let mut filled = 0;
        while filled < bytes {
            filled += stream.read(&mut data[filled..])? * PAGE_SIZE;
        }
        Ok(data)
    }
}

/// A reader of a [`PageSet`] from its first page to its last.
#[derive(Debug)]
pub struct PageStream<'set> {
    set: &'set PageSet,
    /// The number of the next page.
    page: u64,
}

impl PageStream<'_> {
    /// Fills the beginning of `batch` with the next pages and returns their number. At the end of
    /// the set, the number is less than the capacity of `batch`. The last page of a file is padded
    /// with zeros.
    ///
    /// # Errors
    /// Fails if a file can't be read completely, for example because it has become shorter since it
    /// was listed.
    pub fn read(&mut self, batch: &mut [u8]) -> Result<usize, Error> {
        let (room, left) = (batch.len() / PAGE_SIZE, self.set.page_count() - self.page);
        let pages = left.min(room as u64);
        let skipped = SkippedFiles::default();
        let reader = PageReader { plan: &self.set.plan, skipped: &skipped };
        // The page numbers of a plan have 32 bits.
        let range = self.page as u32..(self.page + pages) as u32;
        if !reader.read_all(range, &mut batch[..pages as usize * PAGE_SIZE]) {
            let reason = skipped.lines().into_iter().next();
            return Err(Error::Setup {
                reason: reason.unwrap_or("a file could not be read before".into()),
                remedy: "run again: it may have been replaced meanwhile",
            });
        }
        self.page += pages;
        Ok(pages as usize)
    }
}
