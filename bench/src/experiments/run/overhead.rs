//! Programs under `uzram run` with enough memory, compared with the programs alone.

use super::jobs::{BYTES, HEAP, JOBS, Job};
use super::limited::median;
use super::place::Place;
use super::side::{Outcome, Side, run as run_side};
use super::{Scale, TURNS};
use crate::Error;
use crate::experiments::Request;
use crate::report::{Bound, Figure, Report};

const NAME: &str = "run-overhead";
const WALL_MAX: f64 = 1.03;
const BYTES_MAX: f64 = 1.15;
/// The ratio of the limit to the size of the heap. The limit is so large that nothing is evicted.
const ROOM: u64 = 4;

/// Runs each program, and the programs that read and write single bytes.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let place = Place::new(Scale::of(request))?;
    let turns = request.operations.unwrap_or(TURNS);
    let bytes = BYTES.iter().map(|job| (job, BYTES_MAX));
    let jobs = [&HEAP].into_iter().chain(&JOBS).map(|job| (job, WALL_MAX)).chain(bytes);
    let mut wanted = jobs.filter(|(job, _)| job.is_wanted(request));
    wanted.try_for_each(|(job, most)| one(job, most, &place, turns, report))
}

fn one(
    job: &Job,
    most: f64,
    place: &Place,
    turns: u64,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let Some(prepared) = job.prepared(place)? else { return Ok(()) };
    let limit = ROOM * place.scale.heap.max(64 << 20);
    let ours = Side::Ours { limit, options: &[], is_confined: false };
    let run = |side| run_side(&prepared, side, place, false);
    let (mut alone, mut own) = (Vec::new(), Vec::new());
    // The first round warms up.
    for nth in 0..=turns {
        let (first, second) = if nth % 2 == 0 { (Side::Alone, ours) } else { (ours, Side::Alone) };
        let (first, second) = (run(first)?, run(second)?);
        let pair = if nth % 2 == 0 { (first, second) } else { (second, first) };
        if nth > 0 {
            alone.push(pair.0);
            own.push(pair.1);
        }
    }
    let figure = |what: &str, value, unit| {
        Figure::new(NAME, format!("{}, with room: {what}", job.name), value, unit)
    };
    type Part = fn(&Outcome) -> f64;
    let parts: [(&str, Part, Option<f64>); 2] = [
        ("wall clock", |outcome| outcome.seconds, Some(most)),
        ("processor time", |outcome| outcome.cpu, None),
    ];
    for (part, of, most) in parts {
        let told = figure(part, median(own.iter().map(of)), "s");
        report.add(told.rival("alone", median(alone.iter().map(of))))?;
        let ratios = own.iter().zip(&alone).map(|(own, alone)| of(own) / of(alone));
        let ratio = figure(&format!("{part} over alone"), median(ratios), "");
        report.add(match most {
            Some(most) => ratio.must(Bound::at_most(most)),
            None => ratio,
        })?;
    }
    let different = own.iter().zip(&alone).filter(|(own, alone)| own.shown != alone.shown).count();
    let different = figure("runs that end otherwise than alone", different as f64, "");
    report.add(different.must(Bound::equal(0.0)))?;
    let evicted = median(own.iter().map(|outcome| outcome.stats.evicted));
    report.add(figure("evictions", evicted, ""))
}
