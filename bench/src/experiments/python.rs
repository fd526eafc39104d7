//! The Python package beside what a Python program would take without it: numpy's arrays, the same
//! calls in Rust, and caches from the registry. Each side is a process of its own that is asked
//! line by line, so that no start is counted.

mod asked;
mod calls;
mod columns;
mod documents;
mod place;

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
/// Bytes that the cache of documents may have, and that all else is sized by.
const LIMIT: u64 = 256 * MIB;
/// Rounds, where no other number is asked for; one before warms up.
const ROUNDS: u64 = 5;

/// How large it is.
#[derive(Clone, Debug)]
struct Scale {
    limit: u64,
    rounds: u64,
    seed: u64,
    /// Folders with files.
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

/// One after the other.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [columns, calls, documents].iter().try_for_each(|run| run(request, report))
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    Summary::of(&values).map_or(f64::NAN, |summary| summary.median)
}

/// The median of what one side takes over another, round by round.
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
