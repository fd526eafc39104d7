//! A program at a limit below its memory: under `uzram run` and with the kernel's swap, in turns.

use super::jobs::{JOBS, Job, Prepared, told};
use super::place::Place;
use super::side::{Kernel, Outcome, Side, run as run_side};
use super::{Scale, TURNS};
use crate::Error;
use crate::experiments::Request;
use crate::kernel::Rival;
use crate::report::{Bound, Figure, Report};
use crate::summary::Summary;
use std::time::{Duration, Instant};

const NAME: &str = "run-jobs";
const WALL_MAX: f64 = 1.2;
const PEAK_MAX: f64 = 1.05;
/// The maximum duration of a turn after which another turn follows.
const TURN_LONGEST: Duration = Duration::from_secs(180);
/// The minimum limit in bytes, because any program needs some memory.
const SMALLEST: f64 = 6e6;

/// The ways in which `uzram run` is measured: the name, and whether it runs without rights.
pub(super) const WAYS: [(&str, bool); 2] = [("with every right", false), ("with none", true)];

/// The name of a run whose limit is all memory that the kernel's side uses, including compressed
/// pages.
const EVEN: &str = "with none and as much memory in all";

pub(super) struct Trial<'a> {
    pub(super) experiment: &'static str,
    pub(super) what: String,
    pub(super) job: &'a Prepared,
    pub(super) limit: u64,
    /// The options besides the limit.
    pub(super) options: &'static [&'static str],
    /// The maximum ratio of the wall clock time to the kernel's time, for each way.
    pub(super) wall: [f64; 2],
    /// The maximum ratio of the processor time to the kernel's time, if it is checked.
    pub(super) cpu: Option<f64>,
}

/// The settings that all trials share.
pub(super) struct Bench<'a> {
    pub(super) place: &'a Place,
    pub(super) kernel: &'a Rival<Kernel>,
    pub(super) turns: u64,
}

/// Runs each program at a limit that is a part of the memory of the program alone.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let place = Place::new(Scale::of(request))?;
    let kernel = Kernel::acquire(4 * place.scale.heap)?;
    let turns = request.operations.unwrap_or(TURNS);
    let bench = Bench { place: &place, kernel: &kernel, turns };
    for job in JOBS.iter().filter(|job| job.is_wanted(request)) {
        let Some(prepared) = job.prepared(&place)? else { continue };
        let alone = run_side(&prepared, Side::Alone, &place, true)?;
        let limit = limit(job, &alone);
        let (wall, cpu, options) = ([WALL_MAX; 2], None, job.options);
        let what = told(job.name, limit, options);
        let trial = Trial { experiment: NAME, what, job: &prepared, limit, options, wall, cpu };
        bench.compare(&trial, &alone, report)?;
    }
    Ok(())
}

/// Returns the job's limit, which is a part of the memory of the program alone.
fn limit(job: &Job, alone: &Outcome) -> u64 {
    (alone.peak.anonymous as f64 / job.times).max(SMALLEST) as u64
}

/// A turn: the kernel's run, if the kernel supports it, and the uzram runs in both ways.
struct Turn {
    kernel: Option<Theirs>,
    ours: [Outcome; 2],
}

/// The kernel's run, and the uzram run with as much memory.
struct Theirs {
    outcome: Outcome,
    /// The kernel's memory in bytes: the limit, and compressed pages, which no cgroup counts.
    all: u64,
    /// The uzram run without rights, with a limit of `all`.
    even: Outcome,
}

impl Turn {
    /// Returns true if a uzram run failed or was killed.
    fn is_cut_off(&self) -> bool {
        self.outcomes().any(|outcome| !outcome.shown.0)
    }

    /// Returns the uzram run with as much memory as the kernel's side uses in all.
    fn even(&self) -> Option<&Outcome> {
        Some(&self.kernel.as_ref()?.even)
    }

    /// Returns all uzram runs of the turn.
    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.ours.iter().chain(self.kernel.as_ref().map(|kernel| &kernel.even))
    }
}

impl Bench<'_> {
    /// Compares all sides. `alone` is the outcome of the program by itself.
    pub(super) fn compare(
        &self,
        trial: &Trial<'_>,
        alone: &Outcome,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let Trial { experiment, what, limit, .. } = trial;
        if !alone.shown.0 {
            let reason = format!("{what}: the program by itself");
            return Err(Error::ToolFailed { tool: "a program", reason, remedy: "run it by hand" });
        }
        let figure = |name: &str, value, unit| {
            Figure::new(*experiment, format!("{what}: {name}"), value, unit)
        };
        report.add(figure("wall clock alone", alone.seconds, "s"))?;
        let peak = alone.peak.anonymous as f64;
        report.add(figure("memory alone over the limit", peak / *limit as f64, ""))?;
        let turns = self.turns(trial, alone)?;
        for (nth, (way, _)) in WAYS.into_iter().enumerate() {
            self.times(trial, &turns, trial.wall[nth], way, |turn| Some(&turn.ours[nth]), report)?;
        }
        if let Rival::Present(_) = self.kernel {
            let all = turns.iter().filter_map(|turn| Some(turn.kernel.as_ref()?.all as f64));
            let all = median(all) / *limit as f64;
            report.add(figure("memory of the kernel's in all, over the limit", all, ""))?;
            self.times(trial, &turns, trial.wall[1], EVEN, Turn::even, report)?;
        }
        let others = turns.iter().flat_map(Turn::outcomes);
        let different = others.filter(|outcome| outcome.shown != alone.shown).count();
        let figure_of_output = figure("runs that end otherwise than alone", different as f64, "");
        report.add(figure_of_output.must(Bound::equal(0.0)))?;
        if let Rival::Present(_) = self.kernel {
            let kernels = turns.iter().filter_map(|turn| turn.kernel.as_ref());
            let given_up = median(kernels.map(|kernel| kernel.outcome.given_up as f64));
            report.add(figure("times that the kernel gave it up", given_up, ""))?;
        }
        let name = format!("{what}: most memory over the limit");
        if turns.iter().any(Turn::is_cut_off) {
            let missing = Figure::missing(*experiment, name, "");
            return report.add(missing.must(Bound::at_most(PEAK_MAX)));
        }
        let side = Side::Ours { limit: *limit, options: trial.options, is_confined: true };
        let seen = run_side(trial.job, side, self.place, true)?;
        let over = |bytes: u64| bytes as f64 / *limit as f64;
        let peak = Figure::new(*experiment, name, over(seen.peak.anonymous), "");
        report.add(peak.must(Bound::at_most(PEAK_MAX)))?;
        let with_tables = over(seen.peak.with_tables);
        report.add(figure("most memory and page tables over the limit", with_tables, ""))?;
        let stats = &seen.stats;
        let backend = &stats.backend;
        report.add(figure(&format!("faults, {backend}"), stats.faults, ""))?;
        report.add(figure(&format!("evictions, {backend}"), stats.evicted, ""))?;
        let ratio = stats.compressed / stats.stored * 100.0;
        report.add(figure("compressed to, at the end", ratio, "%"))
    }

    /// Runs all turns. The first side of a turn is the last of the next one.
    fn turns(&self, trial: &Trial<'_>, alone: &Outcome) -> Result<Vec<Turn>, Error> {
        let limit = trial.limit;
        let one = |side| run_side(trial.job, side, self.place, false);
        let kernel = || match self.kernel {
            Rival::Present(kernel) => {
                let (outcome, pool) = kernel.with_pool(|| one(Side::Kernel(limit)))?;
                let Some(outcome) = whole(outcome, alone) else { return Ok(None) };
                let all = limit + pool;
                let even = one(Side::Ours { limit: all, options: &[], is_confined: true })?;
                Ok::<_, Error>(Some(Theirs { outcome, all, even }))
            }
            Rival::Absent(_) => Ok(None),
        };
        let mut turns = Vec::new();
        for nth in 0..self.turns {
            let begun = Instant::now();
            let ours = |is_confined| one(Side::Ours { limit, options: trial.options, is_confined });
            turns.push(if nth % 2 == 0 {
                Turn { kernel: kernel()?, ours: [ours(false)?, ours(true)?] }
            } else {
                let [none, every] = [ours(true)?, ours(false)?];
                Turn { kernel: kernel()?, ours: [every, none] }
            });
            // Another turn would last as long.
            if turns.last().is_some_and(Turn::is_cut_off) || begun.elapsed() > TURN_LONGEST {
                break;
            }
        }
        Ok(turns)
    }

    /// Reports the times of the uzram runs in one way, compared with the kernel's times.
    fn times(
        &self,
        trial: &Trial<'_>,
        turns: &[Turn],
        wall: f64,
        way: &str,
        ours: impl Fn(&Turn) -> Option<&Outcome>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        type Part = fn(&Outcome) -> f64;
        let parts: [(&str, Part, Option<f64>); 2] = [
            ("wall clock", |outcome| outcome.seconds, Some(wall)),
            ("processor time", |outcome| outcome.cpu, trial.cpu),
        ];
        for (part, of, most) in parts {
            let what = format!("{}: {part} {way}", trial.what);
            let own = median(turns.iter().filter_map(|turn| Some(of(ours(turn)?))));
            let told = Figure::new(trial.experiment, what.clone(), own, "s");
            if let Rival::Absent(reason) = self.kernel {
                report.add(told.rival_absent(reason))?;
                continue;
            }
            let theirs = |turn: &Turn| Some(of(&turn.kernel.as_ref()?.outcome));
            report.add(told.rival("the kernel's swap", median(turns.iter().filter_map(theirs))))?;
            let ratio = |turn| Some(of(ours(turn)?) / theirs(turn)?);
            let ratios = turns.iter().filter_map(ratio);
            let what = format!("{what}, over the kernel's");
            let figure = Figure::new(trial.experiment, what, median(ratios), "");
            report.add(match most {
                Some(most) => figure.must(Bound::at_most(most)),
                None => figure,
            })?;
        }
        Ok(())
    }
}

/// Returns the kernel's run if it has the same output as the program alone.
fn whole(kernel: Outcome, alone: &Outcome) -> Option<Outcome> {
    let is_whole = kernel.shown == alone.shown;
    if !is_whole {
        eprintln!("bench: a program failed in the kernel's cgroup: that run is left out");
    }
    is_whole.then_some(kernel)
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    Summary::of(&values.collect::<Vec<_>>()).map_or(f64::NAN, |summary| summary.median)
}
