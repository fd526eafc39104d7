//! Programs that know nothing of it, under `uzram run`: their time and memory at a limit that they
//! do not fit in, beside the kernel's swap on a zram device of its own in a memory cgroup. And
//! where memory suffices, beside the program alone. A table of many programs compares their output
//! and memory only.

mod build;
mod heap;
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
pub use heap::run as heap;
pub use launch::launch;
pub use limited::run as jobs;
pub use overhead::run as overhead;
pub use programs::run as programs;

/// Bytes of the heap that everything else is sized by: more with `--limit`, or less.
const HEAP: u64 = 360 * 1_000_000;
/// Bytes of CPython without a heap.
const BESIDE: u64 = 8 * 1_000_000;
/// Turns of all sides, where no other number is asked for.
const TURNS: u64 = 3;

/// How large a run's jobs are.
#[derive(Clone, Copy, Debug)]
struct Scale {
    heap: u64,
    seed: u64,
}

impl Scale {
    fn of(request: &Request) -> Scale {
        Scale { heap: request.limit.unwrap_or(HEAP), seed: request.seed }
    }

    /// So many bytes of a job whose heap is as large as usual; so many here.
    fn bytes(self, usual: u64) -> u64 {
        (u128::from(usual) * u128::from(self.heap) / u128::from(HEAP)) as u64
    }

    /// The limit that is so much where the heap is as large as usual: what the program takes beside
    /// its heap stays the same.
    fn limit(self, usual: u64) -> u64 {
        self.bytes(usual - BESIDE) + BESIDE
    }
}

/// Returns the names of programs that a request may have, each once.
pub fn names() -> BTreeSet<&'static str> {
    jobs::names().chain(programs::names()).collect()
}

/// One after the other.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [heap, jobs, overhead, programs].iter().try_for_each(|run| run(request, report))
}
