//! Files that were left out, counted, and the first of them named.

use crate::error::escaped;
use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many files of a kind are named.
const NAMED_MAX: usize = 100;

/// Why a file is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It, or a directory, can't be read.
    Skipped,
    /// It changed while it was stored and read back.
    Changed,
}

/// All that was left out. Shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<[Kind; 2]>);

/// What was left out for one reason.
#[derive(Clone, Debug, Default)]
struct Kind {
    count: u64,
    lines: Vec<String>,
}

impl Notices {
    fn kinds(&self) -> MutexGuard<'_, [Kind; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; the caller says each file once.
    pub(crate) fn add(&self, notice: Notice, path: &Path, reason: &dyn Display) {
        let kind = &mut self.kinds()[notice as usize];
        kind.count += 1;
        if kind.lines.len() < NAMED_MAX {
            let what = match notice {
                Notice::Skipped => "skipped",
                Notice::Changed => "not compared",
            };
            kind.lines.push(format!("{what} '{}': {reason}", escaped(path)));
        }
    }

    /// How many there are of a kind.
    pub(crate) fn count(&self, notice: Notice) -> u64 {
        self.kinds()[notice as usize].count
    }

    /// A line for each, in order; one for all that are not named.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut all = Vec::new();
        for kind in &mut *self.kinds() {
            kind.lines.sort_unstable();
            all.extend(kind.lines.iter().cloned());
            let unnamed = kind.count - kind.lines.len() as u64;
            if unnamed > 0 {
                all.push(format!("and {unnamed} files more"));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_the_first_named() {
        let notices = Notices::default();
        for nth in (0..103).rev() {
            notices.add(Notice::Skipped, Path::new(&format!("f{nth:03}")), &"why");
        }
        notices.add(Notice::Changed, Path::new("a\n\u{1b}b"), &"it changed");
        assert_eq!((notices.count(Notice::Skipped), notices.count(Notice::Changed)), (103, 1));
        let lines = notices.lines();
        assert_eq!(lines.len(), 102);
        assert_eq!(lines[0], "skipped 'f003': why");
        assert_eq!(lines[100], "and 3 files more");
        assert_eq!(lines[101], "not compared 'a\\n\\u{1b}b': it changed");
    }
}
