//! A CPython process with a heap, at two limits.

use super::jobs::{DENSE, HEAP, WIDE, told};
use super::limited::{Bench, Trial};
use super::place::Place;
use super::side::{Kernel, Side, run as run_side};
use super::{Scale, TURNS};
use crate::Error;
use crate::experiments::Request;
use crate::report::Report;

const NAME: &str = "run-heap";
/// The limits for a heap of the default size, and the options. CPython allocates its small objects
/// from pools of 16 KiB. The heap compressed by lz4 exceeds the lower limit, which includes
/// compressed data.
const LIMITS: [(u64, &[&str]); 2] = [(200_000_000, WIDE), (100_000_000, DENSE)];
/// The maximum ratio of the wall clock time to the kernel's time: with all rights, and without
/// rights.
const WALL_MAX: [f64; 2] = [1.0, 1.2];
const CPU_MAX: f64 = 1.3;

/// Runs the job at both limits.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let place = Place::new(Scale::of(request))?;
    let Some(job) = HEAP.prepared(&place)? else { return Ok(()) };
    let kernel = Kernel::acquire(4 * place.scale.heap)?;
    let turns = request.operations.unwrap_or(TURNS);
    let bench = Bench { place: &place, kernel: &kernel, turns };
    let alone = run_side(&job, Side::Alone, &place, true)?;
    for (usual, options) in LIMITS {
        let limit = place.scale.limit(usual);
        let what = told("heap", limit, options);
        let (wall, cpu) = (WALL_MAX, Some(CPU_MAX));
        let trial = Trial { experiment: NAME, what, job: &job, limit, options, wall, cpu };
        bench.compare(&trial, &alone, report)?;
    }
    Ok(())
}
