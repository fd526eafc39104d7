//! Unmodified programs under `uzram run`. With a limit below their memory, the programs are
//! compared with runs in a memory cgroup, in which the kernel swaps to zram. With enough memory,
//! the programs are compared with runs without `uzram run`. A table of many programs is checked
//! only for the output and the memory.

mod build;
mod jobs;
mod launch;
mod limited;
mod overhead;
mod place;
mod programs;
mod side;
mod start;
mod watch;

use std::collections::BTreeSet;

use super::Request;
use crate::Error;
use crate::report::Report;

pub(crate) use build::{Build, Limited, builds, count as build_count};
pub use launch::{Order, launch};
pub use limited::{heap, jobs};
pub use overhead::run as overhead;
pub use programs::run as programs;

/// The default of `--limit`: the size of the heap in bytes. All other sizes are derived from this
/// size.
const HEAP: u64 = 360 * 1_000_000;
/// The memory of CPython without a heap, in bytes.
const BESIDE: u64 = 8 * 1_000_000;
/// The default number of runs (turns) of each compared system (side).
const TURNS: u64 = 3;

/// The settings that determine the sizes of a run's jobs.
#[derive(Clone, Copy, Debug)]
struct Scale {
    heap: u64,
    seed: u64,
}

impl Scale {
    fn of(request: &Request) -> Scale {
        Scale { heap: request.limit.unwrap_or(HEAP), seed: request.seed }
    }

    /// Scales `usual` bytes, which apply to a heap of the default size, to this heap's size.
    fn bytes(self, usual: u64) -> u64 {
        (u128::from(usual) * u128::from(self.heap) / u128::from(HEAP)) as u64
    }

    /// Scales the limit `usual`, which applies to a heap of the default size, to this heap's size.
    /// Only the heap's part of the limit is scaled.
    fn limit(self, usual: u64) -> u64 {
        self.bytes(usual - BESIDE) + BESIDE
    }
}

/// Returns the names of the programs that a request can contain, each once.
pub fn names() -> BTreeSet<&'static str> {
    jobs::names().chain(programs::names()).chain([start::START]).collect()
}

/// Runs the experiments one after the other.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [heap, jobs, overhead, programs].iter().try_for_each(|run| run(request, report))
}
