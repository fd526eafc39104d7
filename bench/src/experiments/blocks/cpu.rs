//! The time to write and read whole blocks of 16 KiB, relative to the time for the same bytes in
//! blocks of 4 KiB. This ratio is compared with the same ratio of the raw codec.

use super::bed::{Access, BLOCK_PAGES, Bed, SIDES};
use super::{ZSTD, median_of};
use crate::Error;
use crate::experiments::Request;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;

const NAME: &str = "blocks-cpu";
const ROUNDS: usize = 7;
/// The number of pages that one side processes in a turn.
const TURN: usize = 1024;
/// The bytes of the input that are stored by default.
const LIMIT: u64 = 256 * MIB;
/// The maximum of the difference between the device's ratio and the raw codec's ratio.
const BEYOND_MAX: f64 = 0.03;

/// Runs the experiment. Requests are whole blocks of 16 KiB for both block sizes.
pub(in super::super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Heap]) {
        let pages = request.pages(input)?.capped(request.limit.unwrap_or(LIMIT)).load()?;
        let mut bed = Bed::new(&pages, ZSTD, request.seed)?;
        drop(pages);
        bed.check()?;
        for (access, what) in [(Access::Write, "write"), (Access::Read, "read")] {
            let mut rounds = Vec::new();
            for round in 0..=ROUNDS {
                if access == Access::Write {
                    bed.other_pages();
                }
                let seconds = bed.round(SIDES, access, &bed.in_order(BLOCK_PAGES), TURN)?;
                // The first round warms up.
                if round > 0 {
                    rounds.push(seconds);
                }
            }
            bed.check()?;
            let what = format!("{}/{ZSTD}: {what} time per byte, 16 over 4 KiB", input.name());
            add(&what, &rounds, report)?;
        }
    }
    Ok(())
}

fn add(what: &str, rounds: &[[f64; 4]], report: &mut Report<'_>) -> Result<(), Error> {
    let raw = |[small, large, ..]: &[f64; 4]| large / small;
    let ours = |[.., small, large]: &[f64; 4]| large / small;
    let beyond = median_of(rounds, |round| ours(round) - raw(round));
    let beyond = Figure::new(NAME, format!("{what}, beyond the raw codec's"), beyond, "");
    report.add(beyond.must(Bound::at_most(BEYOND_MAX)))?;
    let figure = Figure::new(NAME, what, median_of(rounds, ours), "");
    report.add(figure.rival(format!("raw {ZSTD}"), median_of(rounds, raw)))
}
