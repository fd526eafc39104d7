//! Cold data: recompressed, written back, saved and restored; beside the raw codecs, `dd`, `pread`
//! and `cp`.

mod files;
mod recompress;
mod save;
mod writeback;

use super::Request;
use crate::Error;
use crate::report::Report;
use crate::summary::Summary;

const NAME: &str = "cold";
/// Times that each side is measured, in turns.
const ROUNDS: usize = 5;

/// All three.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    recompress::run(request, report)?;
    writeback::run(request, report)?;
    save::run(request, report)
}

/// The middle one.
fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |of| of.median)
}
