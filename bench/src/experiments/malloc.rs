//! What a store and a free of our pool cost over malloc, a copy and free, and a read over a plain copy; and what two
//! threads do over one.

mod reads;
mod replace;

use super::Request;
use crate::Error;
use crate::contents::Blobs;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::stores::StoreKind;
use crate::summary::Summary;

const NAME: &str = "malloc";
const ROUNDS: usize = 9;
/// Operations of a turn, where nothing else is asked for.
const OPERATIONS: u64 = 100_000;
/// Our time over the rival's.
const TIME_MAX: f64 = 1.5;
/// What two threads must do over one.
const SCALING_MIN: f64 = 1.8;

/// With the blobs of the source tree.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        let blobs = Blobs::of_pages(&request.whole(input)?.load()?)?.filled();
        let job = Job {
            blobs,
            operations: request.operations.unwrap_or(OPERATIONS),
            seed: request.seed,
            limit: request.limit,
        };
        replace::run(&job, report)?;
        reads::run(&job, report)?;
    }
    Ok(())
}

/// What is measured with.
struct Job {
    blobs: Blobs,
    /// Of a turn.
    operations: u64,
    seed: u64,
    limit: Option<u64>,
}

impl Job {
    /// Nanoseconds of an operation of every side, and ours (the first side's) over one of them.
    fn report_times(
        &self,
        what: &str,
        names: &[&str],
        judge: &str,
        seconds: &[Vec<f64>],
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let named = |figure: String| format!("{what}/{figure}");
        for (name, seconds) in names.iter().zip(seconds) {
            let each: Vec<f64> =
                seconds.iter().map(|seconds| seconds * 1e9 / self.operations as f64).collect();
            let time = Figure::new(NAME, named((*name).into()), median(&each), "ns");
            report.add(time)?;
        }
        for (name, rival) in names.iter().zip(seconds).skip(1) {
            let ratios: Vec<f64> =
                seconds[0].iter().zip(rival).map(|(ours, rival)| ours / rival).collect();
            let share = named(format!("{} over {name}", names[0]));
            let share = Figure::new(NAME, share, median(&ratios), "");
            let judged = *name == judge;
            report.add(if judged { share.must(Bound::at_most(TIME_MAX)) } else { share })?;
        }
        if names.contains(&judge) {
            return Ok(());
        }
        let missing = Figure::missing(NAME, named(format!("{} over {judge}", names[0])), "");
        report.add(missing.must(Bound::at_most(TIME_MAX)).rival_absent(StoreKind::ABSENT))
    }

    /// What two threads do over one: ours is the first side, the rivals are told beside it.
    fn report_scaling(
        &self,
        what: &str,
        names: &[&str],
        scales: &[Vec<f64>],
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let figure = format!("{what}/two threads over one, {}", names[0]);
        let ours = Figure::new(NAME, figure, median(&scales[0]), "");
        let ours = ours.must(Bound::at_least(SCALING_MIN));
        report.add(match names.get(1) {
            Some(rival) => ours.rival(*rival, median(&scales[1])),
            None => ours.rival_absent(StoreKind::ABSENT),
        })
    }
}

fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}
