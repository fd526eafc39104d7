//! The time of work: wall clock time, or the time that a thread or the process runs on a processor.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The clock of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Wall clock time.
    Wall,
    /// The time that the calling thread runs on a processor. Threads that it starts are not
    /// included.
    ThreadCpu,
    /// The time that all threads of the process run on processors.
    ProcessCpu,
}

/// A stopwatch that adds up the time of the work passed to it.
#[derive(Debug)]
pub struct Stopwatch {
    clock: Clock,
    total: Duration,
}

impl Stopwatch {
    /// Returns a stopwatch at zero.
    pub fn new(clock: Clock) -> Stopwatch {
        Stopwatch { clock, total: Duration::ZERO }
    }

    /// Executes `work` and adds its time.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        match self.clock {
            Clock::Wall => {
                let start = Instant::now();
                let done = work();
                self.total += start.elapsed();
                done
            }
            Clock::ThreadCpu => self.time_by(ClockId::ThreadCPUTime, work),
            Clock::ProcessCpu => self.time_by(ClockId::ProcessCPUTime, work),
        }
    }

    fn time_by<T>(&mut self, clock: ClockId, work: impl FnOnce() -> T) -> T {
        let start = spent(clock);
        let done = work();
        self.total += spent(clock).saturating_sub(start);
        done
    }

    /// Returns the seconds measured so far.
    pub fn seconds(&self) -> f64 {
        self.total.as_secs_f64()
    }
}

fn spent(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // The kernel returns neither a negative time nor a billion nanoseconds.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
