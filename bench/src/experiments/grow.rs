//! Costs that must not grow with what is stored, nor with the addresses it lies at: a new zspage, a
//! page that is committed under a limit of all memory, and a store at the pool's limit; and what
//! compaction takes.

mod addresses;
mod limit;

use super::Request;
use crate::Error;
use crate::report::{Bound, Figure, Report};
use crate::size::{GIB, MIB};
use crate::summary::Summary;

const NAME: &str = "grow";
/// An odd number of turns that count, of each size in turn.
const ROUNDS: usize = 7;
/// Operations of a turn, where nothing else is asked for.
const OPERATIONS: u64 = 100_000;
/// A cost over that at a smaller size.
const GROWTH_MAX: f64 = 1.2;
/// The sizes that others are held against.
const SMALL: [u64; 2] = [256 * MIB, GIB];
/// Most bytes that are stored, where nothing else is asked for.
const STORED_MAX: u64 = 8 * GIB;

/// Addresses first: nothing is stored for them.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let job = Job {
        seed: request.seed,
        operations: request.operations.unwrap_or(OPERATIONS),
        stored: request.limit.unwrap_or(STORED_MAX).max(4 * MIB),
    };
    addresses::run(&job, report)?;
    limit::run(&job, report)
}

/// What is measured with.
struct Job {
    seed: u64,
    /// Of a turn.
    operations: u64,
    /// Bytes of the largest pool.
    stored: u64,
}

/// The cost of an operation at one size, turn by turn.
struct Cost {
    at: String,
    nanoseconds: Vec<f64>,
}

impl Cost {
    fn new(at: String) -> Cost {
        Cost { at, nanoseconds: Vec::new() }
    }

    /// Median of its turns' over those of another, which took turns with it.
    fn over(&self, other: &Cost) -> f64 {
        let pairs = self.nanoseconds.iter().zip(&other.nanoseconds);
        median(&pairs.map(|(ours, others)| ours / others).collect::<Vec<_>>())
    }
}

/// Tells each cost, and judges those of larger sizes over those of the `small` first.
fn report_growth(
    what: &str,
    costs: &[Cost],
    small: usize,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    for Cost { at, nanoseconds } in costs {
        report.add(Figure::new(NAME, format!("{what}/{at}"), median(nanoseconds), "ns"))?;
    }
    let (small, large) = costs.split_at(small);
    for (of, over) in large.iter().flat_map(|of| small.iter().map(move |over| (of, over))) {
        let name = format!("{what}/{} over {}", of.at, over.at);
        let figure = Figure::new(NAME, name, of.over(over), "");
        report.add(
            figure.must(Bound::at_most(GROWTH_MAX)).rival(&over.at, median(&over.nanoseconds)),
        )?;
    }
    Ok(())
}

/// A size for people.
fn told(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1024 * GIB => format!("{} TiB", bytes / (1024 * GIB)),
        bytes if bytes >= GIB => format!("{} GiB", bytes / GIB),
        bytes => format!("{} MiB", bytes / MIB),
    }
}

fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}
