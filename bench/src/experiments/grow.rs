//! Costs that must not grow with the stored data or the reserved addresses. The operations are the
//! allocation of a zspage, the commit of a page under a limit on the total memory, and a store at
//! the pool's limit.

mod addresses;
mod limit;

use super::Request;
use crate::Error;
use crate::report::{Bound, Figure, Report};
use crate::size::{GIB, MIB};
use crate::summary::{median, ratio};

const NAME: &str = "grow";
/// The number of measured turns at each size, an odd number.
const ROUNDS: u64 = 7;
/// The default number of operations in a turn.
const OPERATIONS: u64 = 100_000;
/// The maximum ratio of an operation's cost at a larger size to its cost at the small sizes.
const GROWTH_MAX: f64 = 1.2;
/// The small sizes of pools and address spaces in bytes, with which the larger sizes are compared.
const SMALL: [u64; 2] = [256 * MIB, GIB];
/// The maximum number of bytes that are stored by default.
const STORED_MAX: u64 = 8 * GIB;

/// Measures the operations in an address space, then the operations at a pool's limit.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let job = Job {
        seed: request.seed,
        operations: request.operations.unwrap_or(OPERATIONS),
        stored: request.limit.unwrap_or(STORED_MAX).max(4 * MIB),
    };
    addresses::run(&job, report)?;
    limit::run(&job, report)
}

struct Job {
    seed: u64,
    operations: u64,
    /// The size of the largest pool in bytes.
    stored: u64,
}

/// Reports the median cost at each size. `costs` holds each size in bytes, and the nanoseconds of
/// an operation in each turn. Checks the medians of the larger sizes against the medians of the
/// first `small` sizes.
fn report_growth(
    what: &str,
    costs: &[(u64, Vec<f64>)],
    small: usize,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    for (bytes, nanoseconds) in costs {
        let name = format!("{what}/{}", told(*bytes));
        report.add(Figure::new(NAME, name, median(nanoseconds), "ns"))?;
    }
    let (small, large) = costs.split_at(small);
    for (of, over) in large.iter().flat_map(|of| small.iter().map(move |over| (of, over))) {
        let name = format!("{what}/{} over {}", told(of.0), told(over.0));
        let figure = Figure::new(NAME, name, ratio(&of.1, &over.1), "");
        let figure = figure.must(Bound::at_most(GROWTH_MAX));
        report.add(figure.rival(told(over.0), median(&over.1)))?;
    }
    Ok(())
}

/// Returns a readable form of a size.
fn told(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1024 * GIB => format!("{} TiB", bytes / (1024 * GIB)),
        bytes if bytes >= GIB => format!("{} GiB", bytes / GIB),
        bytes => format!("{} MiB", bytes / MIB),
    }
}
