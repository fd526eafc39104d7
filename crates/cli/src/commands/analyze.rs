//! `uzram analyze` forecasts how much memory a device needs for given data. The command stores a
//! sample on real devices, one for each algorithm, level and block size. The results are scaled to
//! all the data.
//!
//! ```text
//!   files | a process's pages -> population -> clusters, spread evenly -> sample
//!     sample -> trial: a real device, timed -> lengths of objects
//!     lengths, scaled -> forecast: size classes, tables, fixed costs -> memory, its error
//!     trials -> advice: one of them -> table or JSON, options, lines for the kernel; Parquet
//! ```

mod advice;
mod args;
mod candidate;
pub(crate) mod forecast;
mod idle;
#[cfg(feature = "parquet")]
mod parquet;
mod population;
mod process;
mod report;
mod row;
mod sample;
mod table;
mod trial;

use crate::commands::outcome::Outcome;
use crate::error::Error;
#[cfg(feature = "parquet")]
use crate::output;
use crate::progress::Progress;
use crate::text::{counted, escaped, json};
pub(crate) use args::AnalyzeArgs;
use measure::Interrupt;
use measure::pages::{self, FilePlan, PageReader, SkippedFiles, Wanted};
use population::Population;
use process::Process;
use report::{Report, Source};
use row::Row;
use sample::Sample;
use trial::Trial;

/// Fails if the input is empty, a device fails, or the user presses Ctrl-C.
pub(crate) fn run(args: &AnalyzeArgs, interrupt: &Interrupt) -> Result<Outcome, Error> {
    #[cfg(feature = "parquet")]
    args.parquet.as_deref().map_or(Ok(()), |path| {
        output::check(path, &args.paths)?;
        parquet::check(path)
    })?;
    let skipped = SkippedFiles::default();
    let report = match args.process {
        Some(pid) => {
            let process = Process::new(pid, args.idle, interrupt)?;
            report(args, &process, process.source(), interrupt)?
        }
        None => {
            let plan = pages::plan(&args.paths, None, Wanted::Readable, &skipped, interrupt)?;
            let source = PageReader { plan: &plan, skipped: &skipped };
            report(args, &source, of_files(args, &plan), interrupt).map_err(
                |error| match error {
                    Error::Failed(text) => Error::Failed(skipped.explain(text)),
                    error => error,
                },
            )?
        }
    };
    let failure = unread(&report).or_else(|| append(args, &report, interrupt).err());
    let text = if args.json { json(&report) } else { table::render(&report) };
    Ok(Outcome { text, warnings: skipped.lines(), failure })
}

/// Returns an error if most of the sample could not be read, because the forecast is then
/// unreliable.
fn unread(report: &Report) -> Option<Error> {
    let Report { clusters, clusters_unread: unread, .. } = *report;
    (unread > clusters).then(|| {
        Error::Failed(format!(
            "{unread} of {} could not be read, so the figures are of the least part, and are \
             appended to no file; try again",
            counted(clusters + unread, "piece")
        ))
    })
}

#[cfg(feature = "parquet")]
fn append(args: &AnalyzeArgs, report: &Report, interrupt: &Interrupt) -> Result<(), Error> {
    args.parquet.as_deref().map_or(Ok(()), |path| parquet::append(path, report, interrupt))
}

#[cfg(not(feature = "parquet"))]
fn append(_: &AnalyzeArgs, _: &Report, _: &Interrupt) -> Result<(), Error> {
    Ok(())
}

fn of_files(args: &AnalyzeArgs, plan: &FilePlan) -> Source {
    let names: Vec<_> = args.paths.iter().map(|path| escaped(path)).collect();
    Source { kind: "files", name: names.join(" "), files: Some(plan.files()), ..Source::default() }
}

fn report(
    args: &AnalyzeArgs,
    population: &dyn Population,
    source: Source,
    interrupt: &Interrupt,
) -> Result<Report, Error> {
    let sample = Sample::read(population, args.sample, args.seed, interrupt)?;
    let candidates = candidate::all(&args.candidates, &args.blocks);
    let bytes = sample.bytes() * 2 * candidates.len() as u64;
    let progress = Progress::new("trying", bytes);
    let mut rows = Vec::new();
    for of_block in candidates.chunk_by(|one, other| one.block == other.block) {
        let mut dictionary = None;
        for with_dictionary in [false, true] {
            if with_dictionary {
                dictionary = sample.dictionary(of_block[0].block);
                interrupt.check()?;
            }
            if with_dictionary && dictionary.is_none() {
                continue;
            }
            for candidate in of_block {
                let trial = Trial::new(candidate, dictionary.as_ref(), &sample, interrupt)?;
                let forecast = forecast::of(candidate, dictionary.as_ref(), &trial, &sample);
                rows.push(Row::new(candidate, &trial, &forecast, &sample));
                progress.advance(sample.bytes());
            }
        }
    }
    Ok(Report::new(source, &sample, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_least_part_are_a_failure() {
        let report = |clusters, clusters_unread| Report {
            source: Source::default(),
            data_bytes: 1 << 30,
            sample_bytes: clusters << 16,
            clusters,
            clusters_in_all: 1 << 14,
            clusters_unread,
            is_all: false,
            candidates: Vec::new(),
            advice: Default::default(),
        };
        assert!(unread(&report(1024, 0)).is_none() && unread(&report(512, 512)).is_none());
        let error = unread(&report(221, 803)).unwrap().to_string();
        assert!(error.starts_with("803 of 1024 pieces could not be read"), "{error}");
    }
}
