//! Lines for people, not more than they can read: a client can have as many written as it likes else.

use rustix_futex_sync::Mutex;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lines of each period at most.
const LINES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Where lines go.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    write: Box<dyn Fn(&str) + Send + Sync>,
    period: Mutex<Period>,
}

struct Period {
    begun: Instant,
    lines: u32,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    /// Lines go to `write`, which must not fail.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let period = Mutex::new(Period { begun: Instant::now(), lines: 0 });
        Log(Arc::new(Inner { write: Box::new(write), period }))
    }

    /// Writes a line, unless too many were written already; then how many were not is told later.
    pub fn line(&self, line: impl Display) {
        let (omitted, is_told) = self.0.count();
        if omitted > 0 {
            (self.0.write)(&format!("{omitted} lines were left out"));
        }
        if is_told {
            (self.0.write)(&line.to_string());
        }
    }
}

impl Inner {
    /// How many lines were left out in the period that ended, and whether one may be written now.
    fn count(&self) -> (u32, bool) {
        let mut period = self.period.lock();
        let mut omitted = 0;
        if period.begun.elapsed() > PERIOD {
            omitted = period.lines.saturating_sub(LINES);
            *period = Period { begun: Instant::now(), lines: 0 };
        }
        period.lines = period.lines.saturating_add(1);
        (omitted, period.lines <= LINES)
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
        assert_eq!(written.lock().len(), LINES as usize);
        log.0.period.lock().begun -= 2 * PERIOD;
        log.line("later");
        assert_eq!(written.lock()[LINES as usize..], ["80 lines were left out", "later"]);
    }
}
