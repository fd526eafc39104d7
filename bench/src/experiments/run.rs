//! Unmodified programs under `uzram run`. At a limit below the memory that they use, their time and
//! memory are compared with the kernel's swap on zram in a memory cgroup. With enough memory,
//! programs under `uzram run` are compared with the same programs run alone. For a table of many
//! programs, only the output and the memory are compared.

mod build;
mod jobs;
mod launch;
mod limited;
mod overhead;
mod place;
mod programs;
mod side;
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

/// The default of `--limit`: the bytes of the heap from which all other sizes are derived.
const HEAP: u64 = 360 * 1_000_000;
/// The memory of CPython without a heap, in bytes.
const BESIDE: u64 = 8 * 1_000_000;
/// The default number of turns of each side.
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

    /// Converts `usual` bytes, which apply to a heap of the default size, to the size of this heap.
    fn bytes(self, usual: u64) -> u64 {
        (u128::from(usual) * u128::from(self.heap) / u128::from(HEAP)) as u64
    }

    /// Converts the limit `usual`, which applies to a heap of the default size, to the size of this
    /// heap. The part of the limit for memory besides the heap is not scaled.
    fn limit(self, usual: u64) -> u64 {
        self.bytes(usual - BESIDE) + BESIDE
    }
}

/// Returns the names of the programs that a request may contain, each once.
pub fn names() -> BTreeSet<&'static str> {
    jobs::names().chain(programs::names()).collect()
}

/// Runs the experiments one after the other.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [heap, jobs, overhead, programs].iter().try_for_each(|run| run(request, report))
}
