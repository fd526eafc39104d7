//! The log. Clients can cause any number of lines, so the log limits the number of its lines. A
//! line that was written recently is not written again. So repetitions of one line do not use up
//! the limit.

use crate::policy::{LOG_LINES, LOG_PERIOD};
use rustix_futex_sync::Mutex;
use std::fmt::{self, Display};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

/// The log of a server. Clones write to one log.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    write: Box<dyn Fn(&str) + Send + Sync>,
    period: Mutex<Period>,
    hashes: RandomState,
}

struct Period {
    begun: Instant,
    /// The hash of each line that was written in this period.
    said: [u64; LOG_LINES],
    lines: usize,
    /// The number of lines that were omitted in this period.
    left_out: u32,
}

impl Period {
    fn new() -> Self {
        Period { begun: Instant::now(), said: [0; LOG_LINES], lines: 0, left_out: 0 }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    /// Creates a log that passes each line to `write`, a function that must not fail.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let (period, hashes) = (Mutex::new(Period::new()), RandomState::new());
        Log(Arc::new(Inner { write: Box::new(write), period, hashes }))
    }

    /// Writes a line. Omits the line if the current period already has the same line or the maximum
    /// number of lines. A later line reports the number of omitted lines.
    pub fn line(&self, line: impl Display) {
        let line = line.to_string();
        let (left_out, is_told) = self.0.count(&line);
        if left_out > 0 {
            (self.0.write)(&format!("{left_out} lines were left out, repeated or too many"));
        }
        if is_told {
            (self.0.write)(&line);
        }
    }
}

impl Inner {
    /// Returns the number of omitted lines of the previous period, and whether the caller is
    /// allowed to write this line now.
    fn count(&self, line: &str) -> (u32, bool) {
        let hash = self.hashes.hash_one(line);
        let mut period = self.period.lock();
        let mut left_out = 0;
        if period.begun.elapsed() > LOG_PERIOD {
            left_out = period.left_out;
            *period = Period::new();
        }
        let lines = period.lines;
        let is_told = lines < LOG_LINES && !period.said[..lines].contains(&hash);
        if is_told {
            period.said[lines] = hash;
            period.lines += 1;
        } else {
            period.left_out = period.left_out.saturating_add(1);
        }
        (left_out, is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let lines = written.clone();
        let log = Log::new(move |line| lines.lock().push(line.to_owned()));
        (0..100).for_each(|nth| log.line(format_args!("line {nth}")));
        assert_eq!(written.lock().len(), LOG_LINES);
        log.0.period.lock().begun -= 2 * LOG_PERIOD;
        log.line("later");
        assert_eq!(
            written.lock()[LOG_LINES..],
            ["80 lines were left out, repeated or too many", "later"]
        );
    }

    #[test]
    fn a_flood_of_one_line_leaves_room_for_others() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let lines = written.clone();
        let log = Log::new(move |line| lines.lock().push(line.to_owned()));
        (0..1000).for_each(|_| log.line("a client made room"));
        log.line("another thing");
        assert_eq!(*written.lock(), ["a client made room", "another thing"]);
        log.0.period.lock().begun -= 2 * LOG_PERIOD;
        log.line("a client made room");
        let later = ["999 lines were left out, repeated or too many", "a client made room"];
        assert_eq!(written.lock()[2..], later);
    }
}
