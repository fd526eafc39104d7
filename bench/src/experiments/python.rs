//! The Python package compared with the alternatives of a Python program: numpy's arrays, the same
//! calls in Rust, and caches from the package index. Each side is a process that executes requests
//! line by line, so no start is timed.

mod asked;
mod calls;
mod columns;
mod documents;
pub(super) mod place;

use std::path::PathBuf;

pub use calls::run as calls;
pub use columns::run as columns;
pub use documents::run as documents;

use super::Request;
use crate::Error;
use crate::inputs::{Input, source_tree};
use crate::report::Report;
use crate::size::MIB;
use crate::summary::Summary;

const NAME: &str = "python";
/// The limit of the cache of documents in bytes, from which all other sizes are derived.
const LIMIT: u64 = 256 * MIB;
/// The number of rounds by default. One more round before them warms up.
const ROUNDS: u64 = 5;

/// The sizes of the experiments.
#[derive(Clone, Debug)]
struct Scale {
    limit: u64,
    rounds: u64,
    seed: u64,
    /// The directories with files for the inputs.
    folders: Vec<PathBuf>,
}

impl Scale {
    fn of(request: &Request) -> Result<Scale, Error> {
        let folders = match request.inputs(&[Input::Source])[..] {
            [Input::System, ..] => ["/usr/share", "/usr/lib"].map(PathBuf::from).to_vec(),
            _ => vec![source_tree(&request.cache)?],
        };
        let limit = request.limit.unwrap_or(LIMIT);
        let rounds = request.operations.unwrap_or(ROUNDS);
        Ok(Scale { limit, rounds, seed: request.seed, folders })
    }
}

/// Runs the experiments one after the other.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [columns, calls, documents].iter().try_for_each(|run| run(request, report))
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    Summary::of(&values).map_or(f64::NAN, |summary| summary.median)
}

/// Returns the median of the ratios of the times `one` to the times `other`, round by round.
fn over(one: &[f64], other: &[f64]) -> f64 {
    median(one.iter().zip(other).map(|(one, other)| one / other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        assert_eq!(over(&[2.0, 9.0, 4.0], &[1.0, 3.0, 1.0]), 3.0);
        assert!(over(&[], &[]).is_nan());
    }
}
