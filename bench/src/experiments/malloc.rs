//! The cost of a store and a free in a uzram pool relative to malloc, a copy and free; of a read
//! relative to a plain copy; and the scaling to two threads.

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
/// The number of operations of a turn by default.
const OPERATIONS: u64 = 100_000;
/// The maximum time of an operation, relative to the rival's time.
const TIME_MAX: f64 = 1.5;
/// The minimum throughput of two threads, relative to the throughput of one thread.
const SCALING_MIN: f64 = 1.8;

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

struct Job {
    blobs: Blobs,
    operations: u64,
    seed: u64,
    limit: Option<u64>,
}

impl Job {
    /// Reports the nanoseconds per operation of every side, and the ratio of each of the first
    /// `ours` sides, which are uzram's, to each rival. The ratio of the first side to `judge` must
    /// meet the bound.
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

    /// Reports the throughput of two threads relative to one thread for each of the first `ours`
    /// sides, which are uzram's, compared with the first rival.
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
