//! The files that were left out: their number, and the names of the first of these files.

use crate::error::escaped;
use crate::policy::NAMED_MAX;
use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The reason why a file is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The file, or a directory on the way to it, can't be read.
    Unreadable,
    /// The file changed while it was stored and read back.
    Changed,
}

/// All files that were left out. All threads share one value.
#[derive(Debug, Default)]
pub struct SkippedFiles(Mutex<[Kind; 2]>);

#[derive(Clone, Debug, Default)]
struct Kind {
    count: u64,
    lines: Vec<String>,
}

impl SkippedFiles {
    fn kinds(&self) -> MutexGuard<'_, [Kind; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a file that is left out. The caller records each file once.
    pub fn add(&self, why: SkipReason, path: &Path, reason: &dyn Display) {
        let kind = &mut self.kinds()[why as usize];
        kind.count += 1;
        if kind.lines.len() < NAMED_MAX {
            let what = match why {
                SkipReason::Unreadable => "skipped",
                SkipReason::Changed => "not compared",
            };
            kind.lines.push(format!("{what} '{}': {reason}", escaped(path)));
        }
    }

    /// Returns the number of files that were left out for this reason.
    pub fn count(&self, why: SkipReason) -> u64 {
        self.kinds()[why as usize].count
    }

    /// Returns the text of an error, followed by the first file that was left out. That file may be
    /// the cause of the error.
    pub fn explain(&self, text: String) -> String {
        match self.lines().first() {
            Some(first) => format!("{text}; {first}"),
            None => text,
        }
    }

    /// Returns one line for each named file, in order. For each reason, another line counts the
    /// files that are not named.
    pub fn lines(&self) -> Vec<String> {
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
        let skipped = SkippedFiles::default();
        for nth in (0..103).rev() {
            skipped.add(SkipReason::Unreadable, Path::new(&format!("f{nth:03}")), &"why");
        }
        skipped.add(SkipReason::Changed, Path::new("a\n\u{1b}b"), &"it changed");
        assert_eq!(
            (skipped.count(SkipReason::Unreadable), skipped.count(SkipReason::Changed)),
            (103, 1)
        );
        let lines = skipped.lines();
        assert_eq!(lines.len(), 102);
        assert_eq!(lines[0], "skipped 'f003': why");
        assert_eq!(lines[100], "and 3 files more");
        assert_eq!(lines[101], "not compared 'a\\n\\u{1b}b': it changed");
    }
}
