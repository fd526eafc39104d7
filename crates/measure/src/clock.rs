//! The time that work takes: all of it, or what its thread spends on a processor.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Time that passes, whatever works or waits.
    Wall,
    /// Time the calling thread spends on a processor. Threads it starts are not counted.
    ThreadCpu,
    /// Time all threads of the process spend on processors.
    ProcessCpu,
}

/// Adds up the time of what it is given; the rest of a side's run is not counted.
#[derive(Debug)]
pub struct Stopwatch {
    clock: Clock,
    total: Duration,
}

impl Stopwatch {
    /// Returns a watch that stands at zero.
    pub fn new(clock: Clock) -> Stopwatch {
        Stopwatch { clock, total: Duration::ZERO }
    }

    /// Does `work` and adds the time it took.
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

    /// Seconds counted so far.
    pub fn seconds(&self) -> f64 {
        self.total.as_secs_f64()
    }
}

fn spent(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // The kernel gives neither a negative time nor a billion nanoseconds.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
