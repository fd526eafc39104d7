//! Programs under `uzram run` with enough memory, compared with the programs alone.

use super::jobs::{BYTES, HEAP, JOBS, Prepared};
use super::place::Place;
use super::programs;
use super::side::{PARTS, Side, run as run_side};
use super::start::{self, START};
use super::{Scale, TURNS};
use crate::Error;
use crate::experiments::Request;
use crate::report::{Bound, Figure, Report};
use crate::summary::{median, ratio};
use crate::turns::{each, in_turns};

const NAME: &str = "run-overhead";
/// Programs of the table of `run-programs` that are also measured.
const LARGE: [&str; 3] = ["go-build", "javac", "java"];
const WALL_MAX: f64 = 1.03;
const BYTES_MAX: f64 = 1.15;
/// The ratio of the limit to the size of the heap. The limit is so large that nothing is evicted.
const ROOM: u64 = 4;

/// Measures the start of a program, and runs the heap, the other jobs, large programs, and the
/// programs that read and write single bytes.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let place = Place::new(Scale::of(request))?;
    let turns = request.operations.unwrap_or(TURNS);
    if request.wants(START) {
        start::run(NAME, &place, turns, report)?;
    }
    let bytes = BYTES.iter().map(|job| (job, BYTES_MAX));
    let jobs = [&HEAP].into_iter().chain(&JOBS).map(|job| (job, WALL_MAX)).chain(bytes);
    for (job, most) in jobs.filter(|(job, _)| request.wants(job.name)) {
        if let Some(prepared) = job.prepared(&place)? {
            one((job.name, &prepared), most, &place, turns, report)?;
        }
    }
    for name in LARGE.into_iter().filter(|name| request.wants(name)) {
        match programs::prepared(name, &place)? {
            Ok(prepared) => one((name, &prepared), WALL_MAX, &place, turns, report)?,
            Err(reason) => eprintln!("bench: {name} is left out: {reason}"),
        }
    }
    Ok(())
}

fn one(
    (name, job): (&str, &Prepared),
    most: f64,
    place: &Place,
    turns: u64,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let limit = ROOM * place.scale.heap.max(64 << 20);
    let sides = [Side::Alone, Side::Ours { limit, options: &[], is_confined: false }];
    let outcomes = in_turns(2, turns, |side| run_side(job, sides[side], place, false))?;
    let [alone, own] = &outcomes[..] else { return Ok(()) };
    let figure = |what: &str, value, unit| {
        Figure::new(NAME, format!("{name}, with room: {what}"), value, unit)
    };
    for ((part, of), most) in PARTS.into_iter().zip([Some(most), None]) {
        let [alone, own] = [alone, own].map(|outcomes| each(outcomes, of));
        report.add(figure(part, median(&own), "s").rival("alone", median(&alone)))?;
        let over = figure(&format!("{part} over alone"), ratio(&own, &alone), "");
        report.add(over.must(most.map(Bound::at_most)))?;
    }
    let different = own.iter().zip(alone).filter(|(own, alone)| own.shown != alone.shown).count();
    let different = figure("runs that end otherwise than alone", different as f64, "");
    report.add(different.must(Bound::equal(0.0)))?;
    let evicted = median(own.iter().map(|outcome| outcome.stats.evicted));
    report.add(figure("evictions", evicted, ""))
}
