//! The pages of a set, batch by batch.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use measure::page::PAGE_SIZE;

use super::PageSet;
use crate::Error;

/// Reads a [`PageSet`] from its first page to its last.
#[derive(Debug)]
pub struct PageStream<'set> {
    set: &'set PageSet,
    span: usize,
    page_in_span: u64,
    file: Option<File>,
}

impl<'set> PageStream<'set> {
    pub(super) fn new(set: &'set PageSet) -> PageStream<'set> {
        PageStream { set, span: 0, page_in_span: 0, file: None }
    }

    /// Fills the front of `batch` with the next pages, and tells how many; fewer than it has room
    /// for only at the end. A file that has become shorter since it was listed is padded with
    /// zeros.
    pub fn read(&mut self, batch: &mut [u8]) -> Result<usize, Error> {
        let room = batch.len() / PAGE_SIZE;
        let mut filled = 0;
        while filled < room {
            let Some(span) = self.set.spans().get(self.span) else { break };
            let pages = (span.page_count - self.page_in_span).min((room - filled) as u64);
            let piece = &mut batch[filled * PAGE_SIZE..][..pages as usize * PAGE_SIZE];
            let offset = self.page_in_span * PAGE_SIZE as u64;
            let used = piece.len().min((span.bytes - offset) as usize);
            let path = self.set.path(span);
            let refused = |action| {
                Error::file(action, &path, "run again: it may have been replaced meanwhile")
            };
            let file = match self.file.take() {
                Some(file) => file,
                None => File::open(&path).map_err(refused("open"))?,
            };
            let found = read_up_to(&file, &mut piece[..used], offset).map_err(refused("read"))?;
            piece[found..].fill(0);
            filled += pages as usize;
            self.page_in_span += pages;
            if self.page_in_span == span.page_count {
                self.span += 1;
                self.page_in_span = 0;
            } else {
                self.file = Some(file);
            }
        }
        Ok(filled)
    }
}

fn read_up_to(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(&mut buf[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
