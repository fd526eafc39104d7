//! Runs a table of programs, each at a limit of half of the memory that the program uses natively.
//! The first figure shows whether the output is the same as natively. The second figure shows
//! whether the processes kept the limit, or `uzram run` reported that they exceeded it.

mod table;

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::Scale;
use super::jobs::Prepared;
use super::place::{Place, program};
use super::side::{Outcome, Side, run as run_side};
use super::watch::LONGEST;
use crate::Error;
use crate::experiments::Request;
use crate::report::{Bound, Figure, Report};
use crate::tool::Tool;
use table::{FILES, programs};

const NAME: &str = "run-programs";
const OVER_MAX: f64 = 1.05;
/// The minimum limit, in bytes.
const SMALLEST: u64 = 12 << 20;
/// The maximum duration of a run under a limit is this multiple of the native time, plus `GRACE`.
const SLOWEST: f64 = 1000.0;
const GRACE: Duration = Duration::from_secs(60);
/// Phrases in the messages by which `uzram run` reports that the limit was exceeded.
const NAMING: [&str; 3] = ["can't be kept", "was exceeded for a time", "without a limit"];
const SHELL: Tool =
    Tool { name: "bash", package: "bash", remedy: "see its message on standard error" };

#[derive(Debug)]
struct Program {
    /// The program's name in figures.
    name: &'static str,
    program: &'static str,
    /// The Debian package that contains the program.
    package: &'static str,
    /// Lines of bash that run once in the directory `$made`, natively, before the measurement. The
    /// text may be empty.
    before: &'static str,
    lines: &'static str,
}

/// Returns the names of all programs.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    programs().map(|program| program.name)
}

fn write_files(place: &Place) -> Result<(), Error> {
    FILES.into_iter().try_for_each(|(name, text)| place.file(name, text).map(drop))
}

/// Creates the inputs of the program `name`. Returns the reason if they can't be created.
pub(super) fn prepared(name: &str, place: &Place) -> Result<Result<Prepared, String>, Error> {
    write_files(place)?;
    let Some(program) = programs().find(|program| program.name == name) else {
        unreachable!("the table has {name}")
    };
    Ok(program.prepared(place))
}

/// The number of programs with each result.
#[derive(Debug, Default)]
struct Counts {
    skipped: f64,
    ran: f64,
    same: f64,
    kept: f64,
}

/// Runs each program natively, and then at a limit of half of its memory.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let place = Place::new(Scale::of(request))?;
    write_files(&place)?;
    let mut counts = Counts::default();
    for program in programs().filter(|program| request.wants(program.name)) {
        match program.compared(&place) {
            Ok(trial) => trial.report(&mut counts, report)?,
            Err(reason) => {
                eprintln!("bench: {} is skipped: {reason}", program.name);
                counts.skipped += 1.0;
            }
        }
    }
    let all = [("the same output", counts.same), ("the limit kept, or named", counts.kept)];
    for (what, count) in all {
        let figure = Figure::new(NAME, format!("programs with {what}"), count, "");
        let must = Bound::at_least(counts.ran.max(1.0));
        report.add(figure.must(must).rival("programs that ran", counts.ran))?;
    }
    report.add(Figure::new(NAME, "programs that were skipped", counts.skipped, ""))
}

impl Program {
    /// Runs the program natively, and under a limit. If it fails natively, returns the reason.
    fn compared(&self, place: &Place) -> Result<Trial, String> {
        let job = self.prepared(place)?;
        let one = |job: &Prepared, side| {
            run_side(job, side, place, true).map_err(|error| error.to_string())
        };
        let native = one(&job, Side::Alone)?;
        if !native.shown.0 {
            return Err("it fails natively".to_owned());
        }
        let limit = (native.peak.anonymous / 2).max(SMALLEST);
        let longest = GRACE + Duration::from_secs_f64(native.seconds * SLOWEST);
        let job = Prepared { longest: longest.min(4 * LONGEST), ..job };
        let ours = one(&job, Side::Ours { limit, options: &[], is_confined: false })?;
        Ok(Trial { name: self.name, native, limit, ours })
    }

    /// Creates the program's inputs. Returns the reason if the inputs can't be created.
    fn prepared(&self, place: &Place) -> Result<Prepared, String> {
        let found = |name: &str, package: &str| {
            let missing = || format!("there is no {name}; install the package {package}");
            program(name).ok_or_else(missing)
        };
        let own = found(self.program, self.package)?;
        let shell = found(SHELL.name, SHELL.package)?;
        let head = self.head(place).map_err(|error| error.to_string())?;
        if !self.before.is_empty() {
            let mut command = Command::new(&shell);
            command.args(["-c", &format!("{head}cd $made\n{}", self.before), &own]);
            SHELL.run(&mut command).map_err(|error| error.to_string())?;
        }
        let command = vec![shell, "-c".to_owned(), head + self.lines, own];
        Ok(Prepared { command, longest: LONGEST })
    }

    /// Returns lines of bash that set the variables that the table's lines use.
    fn head(&self, place: &Place) -> Result<String, Error> {
        let here = place.command();
        let here = here.parent().unwrap_or(&here);
        let made = here.join(format!("made-{}", self.name));
        fs::create_dir_all(&made).map_err(Error::file("create", &made, "free some room"))?;
        let input = |kind, usual| place.input(kind, place.scale.bytes(usual));
        Ok(format!(
            "set -eo pipefail\nhere='{}' made='{}' few='{}' lines='{}' source='{}' count={}\n\
             export GOCACHE=$here/go GO111MODULE=off\n",
            here.display(),
            made.display(),
            input("lines", 4_000_000)?,
            input("lines", 20_000_000)?,
            input("source", 24_000)?,
            place.scale.bytes(2_000_000),
        ))
    }
}

/// A program's runs.
#[derive(Debug)]
struct Trial {
    name: &'static str,
    native: Outcome,
    limit: u64,
    ours: Outcome,
}

impl Trial {
    fn report(&self, counts: &mut Counts, report: &mut Report<'_>) -> Result<(), Error> {
        let is_same = self.ours.shown == self.native.shown;
        let over = self.ours.peak.anonymous as f64 / self.limit as f64;
        let is_named = is_named(&self.ours.messages);
        counts.ran += 1.0;
        counts.same += f64::from(is_same);
        counts.kept += f64::from(over <= OVER_MAX || is_named);
        let figure = |what: &str, value, unit| {
            Figure::new(NAME, format!("{}: {what}", self.name), value, unit)
        };
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let peak = megabytes(self.native.peak.anonymous);
        report.add(figure("limit", megabytes(self.limit), "MB").rival("native memory", peak))?;
        let same = figure("same output", f64::from(is_same), "");
        report.add(same.must(Bound::equal(1.0)))?;
        report.add(if is_named {
            figure("memory over the limit, which a message names", over, "")
        } else {
            figure("memory over the limit", over, "").must(Bound::at_most(OVER_MAX))
        })?;
        let wall = self.ours.seconds / self.native.seconds;
        let wall = figure("wall clock over native", wall, "");
        report.add(wall.rival("native seconds", self.native.seconds))
    }
}

/// Returns true if a message of `uzram run` reports that the limit was exceeded.
fn is_named(messages: &str) -> bool {
    let own = messages.lines().filter(|line| line.starts_with("uzram run: "));
    own.into_iter().any(|line| NAMING.iter().any(|naming| line.contains(naming)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::run::side::Stats;
    use crate::experiments::run::watch::Peak;
    use crate::report::Form;

    fn outcome(sum: u64, anonymous: u64, messages: &str) -> Outcome {
        let peak = Peak { anonymous, with_tables: anonymous };
        let (shown, messages) = ((true, sum, 9), messages.to_owned());
        let stats = Stats::default();
        Outcome { seconds: 1.0, cpu: 1.0, shown, peak, given_up: 0, stats, messages }
    }

    /// Returns whether the output and the memory pass their checks, or `None` for memory that is
    /// not checked because a message reports the exceeded limit. The returned count is 0 if the
    /// memory fails.
    fn judged(ours: Outcome) -> ([Option<bool>; 2], f64) {
        let mut out = Vec::new();
        let mut report = Report::new(Form::Json, 1, &mut out);
        let mut counts = Counts::default();
        let trial = Trial { name: "program", native: outcome(7, 200, ""), limit: 100, ours };
        trial.report(&mut counts, &mut report).unwrap();
        assert_eq!(counts.ran, 1.0);
        let passes: Vec<_> = report.into_figures().iter().map(Figure::pass).collect();
        assert_eq!(counts.same == 1.0, passes[1] == Some(true));
        ([passes[1], passes[2]], counts.kept)
    }

    #[test]
    fn other_output_and_memory_over_the_limit_that_no_message_names_fail() {
        let lost = "a line\nuzram run: the limit of 1 KiB can't be kept: and so on\n";
        let other = "uzram run: it uses more memory\nthe limit can't be kept\n";
        assert_eq!(judged(outcome(7, 105, "")), ([Some(true), Some(true)], 1.0));
        assert_eq!(judged(outcome(8, 100, "")), ([Some(false), Some(true)], 1.0));
        assert_eq!(judged(outcome(7, 106, "")), ([Some(true), Some(false)], 0.0));
        assert_eq!(judged(outcome(7, 106, other)), ([Some(true), Some(false)], 0.0));
        assert_eq!(judged(outcome(7, 106, lost)), ([Some(true), None], 1.0));
        let exceeded = "uzram run: the limit of 1 KiB was exceeded for a time: and so on\n";
        assert_eq!(judged(outcome(7, 106, exceeded)), ([Some(true), None], 1.0));
    }
}
