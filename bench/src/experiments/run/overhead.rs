//! Programs under `uzram run` with enough memory, compared with the programs alone.

use super::jobs::{BYTES, HEAP, JOBS, Job};
use super::place::Place;
use super::side::{PARTS, Side, run as run_side};
use super::{Scale, TURNS};
use crate::Error;
use crate::experiments::Request;
use crate::report::{Bound, Figure, Report};
use crate::summary::{median, ratio};
use crate::turns::{each, in_turns};

const NAME: &str = "run-overhead";
const WALL_MAX: f64 = 1.03;
const BYTES_MAX: f64 = 1.15;
/// The ratio of the limit to the size of the heap. The limit is so large that nothing is evicted.
const ROOM: u64 = 4;

/// Runs the heap, the other jobs, and the programs that read and write single bytes.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let place = Place::new(Scale::of(request))?;
    let turns = request.operations.unwrap_or(TURNS);
    let bytes = BYTES.iter().map(|job| (job, BYTES_MAX));
    let jobs = [&HEAP].into_iter().chain(&JOBS).map(|job| (job, WALL_MAX)).chain(bytes);
    let mut wanted = jobs.filter(|(job, _)| request.wants(job.name));
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
    let sides = [Side::Alone, Side::Ours { limit, options: &[], is_confined: false }];
    let outcomes = in_turns(2, turns, |side| run_side(&prepared, sides[side], place, false))?;
    let [alone, own] = &outcomes[..] else { return Ok(()) };
    let figure = |what: &str, value, unit| {
        Figure::new(NAME, format!("{}, with room: {what}", job.name), value, unit)
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
