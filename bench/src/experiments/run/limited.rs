//! A program at a limit below its memory: under `uzram run` and with the kernel's swap, in turns.

use std::time::{Duration, Instant};

use super::jobs::{DENSE, HEAP, JOBS, Prepared, WIDE, told};
use super::place::Place;
use super::side::{Kernel, Outcome, PARTS, Side, run as run_side};
use super::{Scale, TURNS};
use crate::Error;
use crate::experiments::Request;
use crate::kernel::Rival;
use crate::report::{Bound, Figure, Report};
use crate::summary::median;

/// The limits for a heap of the default size, each with the options of `uzram run`. `WIDE` suits
/// CPython, which allocates small objects from pools of 16 KiB. At the lower limit, the heap
/// compressed by lz4 would not fit.
const HEAP_LIMITS: [(u64, &[&str]); 2] = [(200_000_000, WIDE), (100_000_000, DENSE)];
/// The maximum ratio of the heap's wall clock time to the kernel's time, with all privileges and
/// without privileges.
const HEAP_WALL_MAX: [f64; 2] = [1.0, 1.2];
const HEAP_CPU_MAX: f64 = 1.3;
const WALL_MAX: f64 = 1.2;
const PEAK_MAX: f64 = 1.05;
/// The maximum ratio of the wall clock times for programs with garbage collectors, if both sides
/// use the same total memory.
const COLLECTED_WALL_MAX: f64 = 1.1;
/// A turn that takes longer than this is the last turn.
const TURN_LONGEST: Duration = Duration::from_secs(180);
/// The minimum limit in bytes, because any program needs some memory.
const SMALLEST: f64 = 6e6;

/// The ways to measure `uzram run`: the name, and whether the program runs without privileges.
const WAYS: [(&str, bool); 2] = [("with every right", false), ("with none", true)];

/// The name of a run whose limit equals the total memory of the kernel's side, including compressed
/// pages.
const EVEN: &str = "with none and as much memory in all";

/// A program at a limit.
struct Trial<'a> {
    experiment: &'static str,
    what: String,
    job: &'a Prepared,
    limit: u64,
    /// The options of `uzram run` besides the limit.
    options: &'static [&'static str],
    /// The maximum ratio of the wall clock time to the kernel's time, for each of [`WAYS`].
    wall: [f64; 2],
    /// The same ratio for the run with as much memory as the kernel's side uses.
    even: f64,
    /// The maximum ratio of the processor time to the kernel's time, if it is checked.
    cpu: Option<f64>,
}

/// The settings that all trials share.
struct Bench {
    place: Place,
    kernel: Rival<Kernel>,
    turns: u64,
}

/// Runs a CPython process with a heap at two limits.
pub fn heap(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let bench = Bench::new(request)?;
    let Some(job) = HEAP.prepared(&bench.place)? else { return Ok(()) };
    let alone = run_side(&job, Side::Alone, &bench.place, true)?;
    for (usual, options) in HEAP_LIMITS {
        let limit = bench.place.scale.limit(usual);
        let (wall, cpu, what) = (HEAP_WALL_MAX, Some(HEAP_CPU_MAX), told("heap", limit, options));
        let even = HEAP_WALL_MAX[1];
        let experiment = "run-heap";
        let trial = Trial { experiment, what, job: &job, limit, options, wall, even, cpu };
        bench.compare(&trial, &alone, report)?;
    }
    Ok(())
}

/// Runs each other program at a limit below the memory that the program uses alone.
pub fn jobs(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let bench = Bench::new(request)?;
    for job in JOBS.iter().filter(|job| request.wants(job.name)) {
        let Some(prepared) = job.prepared(&bench.place)? else { continue };
        let alone = run_side(&prepared, Side::Alone, &bench.place, true)?;
        let limit = (alone.peak.anonymous as f64 / job.times).max(SMALLEST) as u64;
        let (wall, cpu, options) = ([WALL_MAX; 2], None, job.options);
        let (experiment, what) = ("run-jobs", told(job.name, limit, options));
        let heap_limited = job.with_heap_limit(&prepared, limit);
        let even = if heap_limited.is_some() { COLLECTED_WALL_MAX } else { WALL_MAX };
        let trial = Trial { experiment, what, job: &prepared, limit, options, wall, even, cpu };
        bench.compare(&trial, &alone, report)?;
        if let Some(job) = heap_limited {
            bench.heap_limited(&trial, &job, &alone, report)?;
        }
    }
    Ok(())
}

/// A turn: the kernel's run, if the kernel has swap, and a uzram run in each of [`WAYS`].
struct Turn {
    kernel: Option<Theirs>,
    ours: [Outcome; 2],
}

/// The kernel's run, and the uzram run with the same memory.
struct Theirs {
    outcome: Outcome,
    /// The memory of the kernel's side in bytes: the limit plus the size of the compressed pages.
    /// No cgroup counts the compressed pages.
    all: u64,
    /// The uzram run without privileges, with the limit `all`.
    even: Outcome,
}

impl Trial<'_> {
    fn figure(&self, name: &str, value: f64, unit: &'static str) -> Figure {
        Figure::new(self.experiment, format!("{}: {name}", self.what), value, unit)
    }

    fn over_limit(&self, bytes: u64) -> f64 {
        bytes as f64 / self.limit as f64
    }
}

impl Turn {
    /// Returns true if a uzram run failed or was killed.
    fn is_cut_off(&self) -> bool {
        self.outcomes().any(|outcome| !outcome.shown.0)
    }

    /// Returns the uzram run whose limit equals all memory that the kernel's side uses.
    fn even(&self) -> Option<&Outcome> {
        Some(&self.kernel.as_ref()?.even)
    }

    /// Returns all uzram runs of the turn.
    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.ours.iter().chain(self.kernel.as_ref().map(|kernel| &kernel.even))
    }
}

impl Bench {
    fn new(request: &Request) -> Result<Bench, Error> {
        let place = Place::new(Scale::of(request))?;
        let kernel = Kernel::acquire(4 * place.scale.heap)?;
        Ok(Bench { place, kernel, turns: request.operations.unwrap_or(TURNS) })
    }

    /// Compares all sides. `alone` is the outcome of the program without a limit.
    fn compare(
        &self,
        trial: &Trial<'_>,
        alone: &Outcome,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        if !alone.shown.0 {
            let reason = format!("{}: the program by itself", trial.what);
            return Err(Error::ToolFailed { tool: "a program", reason, remedy: "run it by hand" });
        }
        report.add(trial.figure("wall clock alone", alone.seconds, "s"))?;
        let peak = trial.over_limit(alone.peak.anonymous);
        report.add(trial.figure("memory alone over the limit", peak, ""))?;
        let turns = self.turns(trial, alone)?;
        for (nth, (way, _)) in WAYS.into_iter().enumerate() {
            self.times(trial, &turns, trial.wall[nth], way, |turn| Some(&turn.ours[nth]), report)?;
        }
        let kernels = || turns.iter().filter_map(|turn| turn.kernel.as_ref());
        if let Rival::Present(_) = self.kernel {
            let all = median(kernels().map(|kernel| trial.over_limit(kernel.all)));
            report.add(trial.figure("memory of the kernel's in all, over the limit", all, ""))?;
            self.times(trial, &turns, trial.even, EVEN, Turn::even, report)?;
        }
        let others = turns.iter().flat_map(Turn::outcomes);
        let different = others.filter(|outcome| outcome.shown != alone.shown).count();
        let different = trial.figure("runs that end otherwise than alone", different as f64, "");
        report.add(different.must(Bound::equal(0.0)))?;
        if let Rival::Present(_) = self.kernel {
            let given_up = median(kernels().map(|kernel| kernel.outcome.given_up as f64));
            report.add(trial.figure("times that the kernel gave it up", given_up, ""))?;
        }
        self.peak(trial, turns.iter().any(Turn::is_cut_off), report)
    }

    /// Reports the run of a program alone, with a heap that its garbage collector limits.
    fn heap_limited(
        &self,
        trial: &Trial<'_>,
        job: &Prepared,
        alone: &Outcome,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let run = run_side(job, Side::Alone, &self.place, true)?;
        let ends = f64::from(run.shown == alone.shown);
        report.add(trial.figure("ends with its own heap limit", ends, ""))?;
        let wall = trial.figure("wall clock with its own heap limit", run.seconds, "s");
        report.add(wall.rival("alone", alone.seconds))?;
        let peak = trial.over_limit(run.peak.anonymous);
        report.add(trial.figure("memory with its own heap limit, over the limit", peak, ""))
    }

    /// Reports the memory of a further uzram run, which is not timed. Does nothing if an earlier
    /// run failed.
    fn peak(
        &self,
        trial: &Trial<'_>,
        is_cut_off: bool,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        const NAME: &str = "most memory over the limit";
        let Trial { limit, options, .. } = *trial;
        if is_cut_off {
            let name = format!("{}: {NAME}", trial.what);
            let missing = Figure::missing(trial.experiment, name, "");
            return report.add(missing.must(Bound::at_most(PEAK_MAX)));
        }
        let side = Side::Ours { limit, options, is_confined: true };
        let Outcome { peak, stats, .. } = run_side(trial.job, side, &self.place, true)?;
        let most = trial.figure(NAME, trial.over_limit(peak.anonymous), "");
        report.add(most.must(Bound::at_most(PEAK_MAX)))?;
        let with_tables = trial.over_limit(peak.with_tables);
        let backend = &stats.backend;
        for (name, value, unit) in [
            ("most memory and page tables over the limit".to_owned(), with_tables, ""),
            (format!("faults, {backend}"), stats.faults, ""),
            (format!("evictions, {backend}"), stats.evicted, ""),
            ("compressed to, at the end".to_owned(), stats.compressed / stats.stored * 100.0, "%"),
        ] {
            report.add(trial.figure(&name, value, unit))?;
        }
        Ok(())
    }

    /// Runs all turns. The kernel's side is first in turns 0, 2 and so on, and last in the other
    /// turns.
    fn turns(&self, trial: &Trial<'_>, alone: &Outcome) -> Result<Vec<Turn>, Error> {
        let limit = trial.limit;
        let one = |side| run_side(trial.job, side, &self.place, false);
        let kernel = || match &self.kernel {
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
            // The next turn would take as long.
            if turns.last().is_some_and(Turn::is_cut_off) || begun.elapsed() > TURN_LONGEST {
                break;
            }
        }
        Ok(turns)
    }

    /// Reports the times of the uzram runs in one of [`WAYS`], compared with the kernel's times.
    fn times(
        &self,
        trial: &Trial<'_>,
        turns: &[Turn],
        wall: f64,
        way: &str,
        ours: impl Fn(&Turn) -> Option<&Outcome>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        for ((part, of), most) in PARTS.into_iter().zip([Some(wall), trial.cpu]) {
            let what = format!("{part} {way}");
            let own = median(turns.iter().filter_map(|turn| Some(of(ours(turn)?))));
            let theirs = |turn: &Turn| Some(of(&turn.kernel.as_ref()?.outcome));
            let kernel = self.kernel.as_ref().map(|_| median(turns.iter().filter_map(theirs)));
            report.add(trial.figure(&what, own, "s").beside("the kernel's swap", &kernel))?;
            if let Rival::Present(_) = self.kernel {
                let ratios = turns.iter().filter_map(|turn| Some(of(ours(turn)?) / theirs(turn)?));
                let over = trial.figure(&format!("{what}, over the kernel's"), median(ratios), "");
                report.add(over.must(most.map(Bound::at_most)))?;
            }
        }
        Ok(())
    }
}

/// Returns the kernel's run if its output equals the output of the program alone.
fn whole(kernel: Outcome, alone: &Outcome) -> Option<Outcome> {
    let is_whole = kernel.shown == alone.shown;
    if !is_whole {
        eprintln!("bench: a program failed in the kernel's cgroup: that run is left out");
    }
    is_whole.then_some(kernel)
}
