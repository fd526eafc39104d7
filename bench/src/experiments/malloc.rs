//! What a store and a free of our pool cost over malloc, a copy and free, and a read over a plain
//! copy; and what two threads do over one.

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
    /// Nanoseconds of an operation of every side, and of each of ours, which come first, over all
    /// others. The first is judged, by `judge`.
    fn report_times(
        &self,
        what: &str,
        names: &[&str],
        ours: usize,
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
        for (nth, (our, seconds_of_our)) in names.iter().zip(seconds).take(ours).enumerate() {
            for (name, rival) in names.iter().zip(seconds).skip(ours) {
                let both = seconds_of_our.iter().zip(rival);
                let ratios: Vec<f64> = both.map(|(ours, rival)| ours / rival).collect();
                let share = named(format!("{our} over {name}"));
                let share = Figure::new(NAME, share, median(&ratios), "");
                let judged = nth == 0 && *name == judge;
                report.add(if judged { share.must(Bound::at_most(TIME_MAX)) } else { share })?;
            }
        }
        if names.contains(&judge) {
            return Ok(());
        }
        let missing = Figure::missing(NAME, named(format!("{} over {judge}", names[0])), "");
        report.add(missing.must(Bound::at_most(TIME_MAX)).rival_absent(StoreKind::ABSENT))
    }

    /// What two threads do over one: each of ours, which come first, with the next rival beside it.
    fn report_scaling(
        &self,
        what: &str,
        names: &[&str],
        ours: usize,
        scales: &[Vec<f64>],
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        for (our, scales_of_our) in names.iter().zip(scales).take(ours) {
            let figure = format!("{what}/two threads over one, {our}");
            let figure = Figure::new(NAME, figure, median(scales_of_our), "");
            let figure = figure.must(Bound::at_least(SCALING_MIN));
            report.add(match names.get(ours) {
                Some(rival) => figure.rival(*rival, median(&scales[ours])),
                None => figure.rival_absent(StoreKind::ABSENT),
            })?;
        }
        Ok(())
    }
}

fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}
