//! Measures the time of work: wall clock time, or processor time of a thread or of the process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A kind of time that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Wall clock time.
    Wall,
    /// The processor time of the calling thread. Threads that the calling thread starts are not
    /// included.
    ThreadCpu,
    /// The processor time of all threads of the process.
    ProcessCpu,
}

impl Clock {
    fn now(self) -> Duration {
        let now = clock_gettime(match self {
            Clock::Wall => ClockId::Monotonic,
            Clock::ThreadCpu => ClockId::ThreadCPUTime,
            Clock::ProcessCpu => ClockId::ProcessCPUTime,
        });
        // The kernel returns no negative time, and always less than a billion nanoseconds.
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
    }
}

/// A stopwatch that adds up the time of the work passed to it.
#[derive(Debug)]
pub struct Stopwatch {
    clock: Clock,
    total: Duration,
}

impl Stopwatch {
    /// Returns a stopwatch whose time is zero.
    pub fn new(clock: Clock) -> Stopwatch {
        Stopwatch { clock, total: Duration::ZERO }
    }

    /// Executes `work` and adds its time.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = self.clock.now();
        let done = work();
        self.total += self.clock.now().saturating_sub(start);
        done
    }

    /// Returns the time measured so far, in seconds.
    pub fn seconds(&self) -> f64 {
        self.total.as_secs_f64()
    }
}
