//! `uzram analyze`: what would a device give? A sample is stored on real devices, one for each
//! algorithm, level and block size, and what it takes is told of all the data.
//!
//! ```text
//!   files | a process's pages -> population -> clusters, spread evenly -> sample
//!     sample -> trial: a real device, timed -> lengths of objects
//!     lengths, scaled -> forecast: size classes, tables, what is there once -> memory, its error
//!     trials -> advice: one of them -> table or JSON, options, lines for the kernel; Parquet
//! ```

mod advice;
mod args;
mod candidate;
mod forecast;
mod idle;
mod mappings;
#[cfg(feature = "parquet")]
mod parquet;
mod population;
mod process;
mod report;
mod row;
mod sample;
mod table;
mod trial;

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::outcome::Outcome;
use crate::pages::{self, FilePlan, SkippedFiles, Wanted};
use crate::progress::Progress;
use crate::text::{escaped, json};
pub use args::AnalyzeArgs;
use candidate::Candidate;
use population::{Files, Population};
use process::Process;
use report::{Report, Source};
use row::Row;
use sample::Sample;
use trial::Trial;
use zcomp::Codec;

/// What a device is forecast to take of some data.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Bytes that are compressed as one.
    pub block: usize,
    /// Bytes of memory, everything counted.
    pub memory: u64,
    /// By how many bytes that may be off, in 95 of 100 samples.
    pub error: u64,
}

/// Forecasts what devices would take that have these pages, with an algorithm at a level, from a
/// sample of them: for each block size one.
///
/// # Errors
/// There is no page, or a device fails.
pub fn forecast(
    pages: &[u8],
    (codec, level): (&'static dyn Codec, i32),
    blocks: &[usize],
    (sample_bytes, seed): (u64, u64),
) -> Result<Vec<Expected>, Error> {
    let interrupt = Interrupt::default();
    let sample = Sample::read(&population::Loaded(pages), sample_bytes, seed, &interrupt)?;
    let expected = |&block: &usize| {
        let candidate = Candidate { kind: candidate::Kind { codec, level }, block };
        let trial = Trial::new(&candidate, None, &sample, &interrupt)?;
        let forecast = forecast::of(&candidate, &trial, &sample);
        Ok(Expected { block, memory: forecast.memory as u64, error: forecast.error as u64 })
    };
    blocks.iter().map(expected).collect()
}

/// Samples, tries, and says what a device would take.
///
/// # Errors
/// There is nothing to be read, a device fails, or Ctrl-C.
pub fn run(args: &AnalyzeArgs, interrupt: &Interrupt) -> Result<Outcome, Error> {
    #[cfg(feature = "parquet")]
    if let Some(path) = &args.parquet {
        // Better now than after the work.
        parquet::check(path)?;
    }
    let skipped = SkippedFiles::default();
    let report = match args.process {
        Some(pid) => {
            let process = Process::new(pid, args.idle, interrupt)?;
            report(args, &process, process.source(), interrupt)
        }
        None => {
            let plan = pages::plan(&args.paths, None, Wanted::All, &skipped, interrupt)?;
            report(args, &Files::new(&plan, &skipped), of_files(args, &plan), interrupt)
        }
    };
    let warnings = skipped.lines();
    let report = match report {
        // What was skipped may be why.
        Err(failure) if !warnings.is_empty() => {
            return Ok(Outcome { text: String::new(), warnings, failure: Some(failure) });
        }
        report => report?,
    };
    let text = if args.json { json(&report) } else { table::render(&report) };
    #[cfg(feature = "parquet")]
    if let Some(path) = &args.parquet
        && let Err(failure) = parquet::append(path, &report, interrupt)
    {
        return Ok(Outcome { text, warnings, failure: Some(failure) });
    }
    Ok(Outcome { text, warnings, failure: unread(&report) })
}

/// Returns the failure that most of the sample could not be read: the rest says little of it.
fn unread(report: &Report) -> Option<Error> {
    (report.clusters_unread > report.clusters).then(|| {
        let all = report.clusters + report.clusters_unread;
        let unread = report.clusters_unread;
        Error::Failed(format!(
            "{unread} of {all} pieces of 64 KiB could not be read, and the rest may differ; ask as \
             a user who may read all"
        ))
    })
}

fn of_files(args: &AnalyzeArgs, plan: &FilePlan) -> Source {
    let names: Vec<_> = args.paths.iter().map(|path| escaped(path)).collect();
    Source { kind: "files", name: names.join(" "), files: Some(plan.files()), ..Source::default() }
}

/// Tries all that is asked for.
fn report(
    args: &AnalyzeArgs,
    population: &dyn Population,
    source: Source,
    interrupt: &Interrupt,
) -> Result<Report, Error> {
    let sample = Sample::read(population, args.sample_bytes(), args.seed, interrupt)?;
    let candidates = candidate::all(&args.candidates, &args.blocks);
    let bytes = sample.bytes() * 2 * candidates.len() as u64;
    let progress = Progress::new("trying", bytes);
    let mut rows = Vec::new();
    for &block in &args.blocks {
        let mut dictionary = None;
        for with_dictionary in [false, true] {
            if with_dictionary {
                dictionary = sample.dictionary(block);
                interrupt.check()?;
            }
            if with_dictionary && dictionary.is_none() {
                continue;
            }
            for candidate in candidates.iter().filter(|one| one.block == block) {
                let trial = Trial::new(candidate, dictionary.as_ref(), &sample, interrupt)?;
                rows.push(row(candidate, &trial, &sample));
                progress.advance(sample.bytes());
            }
        }
    }
    progress.finish();
    Ok(Report::new(source, &sample, rows))
}

fn row(candidate: &Candidate, trial: &Trial, sample: &Sample) -> Row {
    let forecast = forecast::of(candidate, trial, sample);
    Row::new(candidate, trial, &forecast, sample)
}
