//! The costs of `uzram run` for a program that does nothing: the time of its start, and its memory.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::jobs::Prepared;
use super::place::{Place, program};
use super::side::{Side, run as run_side};
use super::watch::LONGEST;
use crate::Error;
use crate::own::failed;
use crate::report::{Bound, Figure, Report};
use crate::summary::median;
use crate::turns::in_turns;

/// The name by which a request selects these figures.
pub(super) const START: &str = "start";
/// The number of starts of each kind.
const STARTS: u64 = 101;
const START_MAX: f64 = 3.0;
const IDLE_MAX: f64 = 512.0;
const LIMIT: u64 = 64 << 20;
/// The ways in which `uzram run` starts a program, each with its option.
const WAYS: [(&str, &[&str]); 2] = [("injected", &[]), ("hosted", &["--no-inject"])];

/// Measures the time in which programs start and the memory of an idle program, as a part of the
/// experiment `name`.
pub(super) fn run(
    name: &'static str,
    place: &Place,
    turns: u64,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let (Some(nothing), Some(sleep)) = (program("true"), program("sleep")) else { return Ok(()) };
    let uzram = place.command();
    let starts = in_turns(1 + WAYS.len(), STARTS, |side| {
        let mut command = match side {
            0 => Command::new(&nothing),
            side => {
                let mut command = Command::new(&uzram);
                command.args(["run", "--limit", &LIMIT.to_string()]).args(WAYS[side - 1].1);
                command.args(["--", &nothing]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let is_done = command.status().map_err(failed)?.success();
        let seconds = begun.elapsed().as_secs_f64();
        if is_done { Ok(seconds * 1e3) } else { Err(failed("a program that does nothing failed")) }
    })?;
    let alone = median(&starts[0]);
    for ((way, _), own) in WAYS.iter().zip(&starts[1..]) {
        let figure =
            Figure::new(name, format!("start, {way}: over native"), median(own) - alone, "ms");
        report.add(figure.must(Bound::at_most(START_MAX)).rival("native ms", alone))?;
    }
    let job = Prepared { command: vec![sleep, "0.5".to_owned()], longest: LONGEST };
    let sides = [Side::Alone, Side::Ours { limit: LIMIT, options: &[], is_confined: false }];
    let outcomes = in_turns(2, turns, |side| run_side(&job, sides[side], place, true))?;
    let kibibytes = |side: usize| {
        median(outcomes[side].iter().map(|outcome| outcome.peak.anonymous as f64 / 1024.0))
    };
    let figure = Figure::new(name, "sleep: memory over native", kibibytes(1) - kibibytes(0), "KiB");
    report.add(figure.must(Bound::at_most(IDLE_MAX)).rival("native KiB", kibibytes(0)))
}
