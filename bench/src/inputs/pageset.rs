//! The pages of some files, in a fixed order.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use measure::page::PAGE_SIZE;

use super::PageStream;
use super::tree::{self, Found};
use crate::Error;
use crate::aligned::AlignedBuf;

/// Which directory at the top a file lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupIndex(u16);

/// A file and the pages it fills, the last of them padded with zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpan {
    /// Its path below the set's root.
    pub path: PathBuf,
    /// The directory at the top that it lies in.
    pub group: GroupIndex,
    /// Bytes of it that are used.
    pub bytes: u64,
    /// Its first page in the set.
    pub first_page: u64,
    /// How many pages it fills.
    pub page_count: u64,
}

impl FileSpan {
    /// Its pages in the set.
    pub fn pages(&self) -> Range<u64> {
        self.first_page..self.first_page + self.page_count
    }
}

/// Files seen as one row of pages.
#[derive(Debug, Clone)]
pub struct PageSet {
    root: PathBuf,
    spans: Vec<FileSpan>,
    // Names of the directories at the top; "" for files that lie in none.
    groups: Vec<String>,
}

impl PageSet {
    /// The regular files under `root`, or under `dirs` of it, in the order of their paths.
    pub fn of_tree(root: &Path, dirs: &[&str]) -> Result<PageSet, Error> {
        PageSet::of(root, tree::files(root, dirs)?)
    }

    /// One file of pages.
    pub fn of_file(path: &Path) -> Result<PageSet, Error> {
        let data = fs::metadata(path).map_err(Error::file(
            "read",
            path,
            "remove it to have it made anew",
        ))?;
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        let root = path.parent().unwrap_or(Path::new("/"));
        PageSet::of(root, vec![Found { path: name, bytes: data.len() }])
    }

    fn of(root: &Path, files: Vec<Found>) -> Result<PageSet, Error> {
        let mut indexes: HashMap<String, GroupIndex> = HashMap::new();
        let mut set = PageSet {
            root: root.to_path_buf(),
            spans: Vec::with_capacity(files.len()),
            groups: Vec::new(),
        };
        let mut first_page = 0;
        for Found { path, bytes } in files {
            let name = top(&path);
            let group = match indexes.get(&name) {
                Some(&group) => group,
                None => {
                    let group =
                        GroupIndex(u16::try_from(set.groups.len()).map_err(|_| Error::Setup {
                            reason: format!("{} holds more than 65536 directories", root.display()),
                            remedy: "take its parent",
                        })?);
                    set.groups.push(name.clone());
                    indexes.insert(name, group);
                    group
                }
            };
            let page_count = bytes.div_ceil(PAGE_SIZE as u64);
            set.spans.push(FileSpan { path, group, bytes, first_page, page_count });
            first_page += page_count;
        }
        Ok(set)
    }

    /// The first pages only, as many whole ones as fit into `bytes`.
    pub fn capped(mut self, bytes: u64) -> PageSet {
        let pages = bytes / PAGE_SIZE as u64;
        self.spans.retain(|span| span.first_page < pages);
        if let Some(last) = self.spans.last_mut() {
            last.page_count = last.page_count.min(pages - last.first_page);
            last.bytes = last.bytes.min(last.page_count * PAGE_SIZE as u64);
        }
        self
    }

    /// How many pages it has.
    pub fn page_count(&self) -> u64 {
        self.spans.last().map_or(0, |last| last.pages().end)
    }

    /// Its files, in the order of their pages.
    pub fn spans(&self) -> &[FileSpan] {
        &self.spans
    }

    /// The directories at its top, by index; "" stands for files that lie in none.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Its files in the directory `name` at the top; none if there is no such directory.
    pub fn spans_in(&self, name: &str) -> impl Iterator<Item = &FileSpan> {
        let group = self.groups.iter().position(|group| group == name);
        self.spans.iter().filter(move |span| group == Some(usize::from(span.group.0)))
    }

    /// Reads it from the first page on.
    pub fn stream(&self) -> PageStream<'_> {
        PageStream::new(self)
    }

    /// All of its pages, in memory, aligned for direct I/O. Cap it first.
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

    pub(super) fn path(&self, span: &FileSpan) -> PathBuf {
        self.root.join(&span.path)
    }
}

fn top(path: &Path) -> String {
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(first), Some(_)) => first.as_os_str().to_string_lossy().into_owned(),
        _ => String::new(),
    }
}
