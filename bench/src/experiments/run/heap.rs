//! A CPython process with a heap, at two limits.

use super::jobs::HEAP;
use super::limited::{Bench, Trial};
use super::place::Place;
use super::side::{Kernel, Side, run as run_side};
use super::{Scale, TURNS};
use crate::Error;
use crate::experiments::Request;
use crate::report::Report;

const NAME: &str = "run-heap";
/// Limits of a heap of the usual size.
const LIMITS: [u64; 2] = [200_000_000, 100_000_000];
/// With every right, and with none.
const WALL_MAX: [f64; 2] = [1.0, 1.2];
const CPU_MAX: f64 = 1.3;

/// At both limits.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let place = Place::new(Scale::of(request))?;
    let Some(job) = HEAP.prepared(&place)? else { return Ok(()) };
    let kernel = Kernel::acquire(4 * place.scale.heap)?;
    let turns = request.operations.unwrap_or(TURNS);
    let bench = Bench { place: &place, kernel: &kernel, turns };
    let alone = run_side(&job, Side::Alone, &place, true)?;
    for usual in LIMITS {
        let limit = place.scale.limit(usual);
        let what = format!("heap at {} MB", limit / 1_000_000);
        let (wall, cpu) = (WALL_MAX, Some(CPU_MAX));
        let trial = Trial { experiment: NAME, what, job: &job, limit, wall, cpu };
        bench.compare(&trial, &alone, report)?;
    }
    Ok(())
}
