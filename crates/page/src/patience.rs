//! Waits for other threads. In debug builds, a wait that lasts too long aborts the process. The
//! message names what the thread waited for.

use crate::policy::{WAIT_MAX, WAIT_ROUND_MAX};
use std::time::{Duration, Instant};

const END: &str = " for 300 s; report this fault with the stacks of all threads\n";

/// A wait for an event that another thread causes.
#[derive(Debug)]
pub struct Patience {
    what: &'static str,
    last: Option<Instant>,
    waited: Duration,
}

impl Patience {
    /// Begins to wait for `what`.
    pub const fn new(what: &'static str) -> Self {
        Patience { what, last: None, waited: Duration::ZERO }
    }

    /// Counts a round of the wait. In release builds, the function does nothing.
    #[inline]
    pub fn spend(&mut self) {
        if cfg!(debug_assertions) && self.is_spent(Instant::now()) {
            self.fail();
        }
    }

    /// Counts a round, and returns whether the wait has lasted too long.
    fn is_spent(&mut self, now: Instant) -> bool {
        let last = self.last.replace(now).unwrap_or(now);
        self.waited += now.saturating_duration_since(last).min(WAIT_ROUND_MAX);
        self.waited > WAIT_MAX
    }

    /// Aborts the process. The function allocates no memory, because the thread may be waiting for
    /// the heap's lock.
    #[cold]
    fn fail(&self) -> ! {
        for part in ["uzram: a thread has waited for ", self.what, END] {
            let _heard = rustix::io::write(rustix::stdio::stderr(), part.as_bytes());
        }
        std::process::abort()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn a_wait_has_an_end() {
        let second = Duration::from_secs(1);
        // A round in which the process was stopped for an hour counts as one second.
        for round in [second, 3600 * second] {
            let (mut patience, begin) = (Patience::new("a test"), Instant::now());
            let spent = (0..=301).find(|nth| patience.is_spent(begin + *nth * round));
            assert_eq!(spent, Some(301));
        }
    }

    #[test]
    fn the_process_ends_with_a_line() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "patience::tests::it_fails", "--ignored", "--nocapture"]);
        let output = child.output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
        let line = String::from_utf8_lossy(&output.stderr);
        assert!(line.contains("has waited for a test for 300 s"), "{line}");
    }

    #[test]
    #[ignore = "the test above executes it, because it ends its process"]
    fn it_fails() {
        Patience::new("a test").fail();
    }
}
