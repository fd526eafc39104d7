//! Cold data recompressed, written back, saved and restored, compared with the raw codecs, `dd`,
//! `pread` and `cp`.

mod files;
mod recompress;
mod save;
mod writeback;

use super::Request;
use crate::Error;
use crate::report::Report;
use crate::summary::Summary;

const NAME: &str = "cold";
/// The number of times that each side is measured, in turns.
const ROUNDS: usize = 5;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    recompress::run(request, report)?;
    writeback::run(request, report)?;
    save::run(request, report)
}

fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |of| of.median)
}
