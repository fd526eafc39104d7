//! `uzram train-dictionary`: takes a sample, trains a dictionary, and tries it on blocks that were
//! held out.

mod args;
mod evaluation;
mod samples;

use crate::commands::outcome::Outcome;
use crate::error::Error;
use crate::output;
use crate::progress::Progress;
use crate::text::{counted, escaped, human, json};
use evaluation::Evaluation;
use measure::Interrupt;
use measure::pages::{self, PageReader, SkipReason, SkippedFiles, Wanted};
use samples::Samples;
use serde::Serialize;
use std::fmt::{self, Write};
use std::io::Write as _;

pub(crate) use args::TrainArgs;

#[derive(Debug, Serialize)]
struct Report {
    dictionary: String,
    dictionary_bytes: usize,
    block: usize,
    files: u64,
    /// The number of blocks with which the dictionary was trained, and of other blocks on which it
    /// was tried.
    blocks_trained: usize,
    blocks_held_out: usize,
    skipped_files: u64,
    /// The bytes of all files, in whole pages.
    data_bytes: u64,
    codecs: Vec<Evaluation>,
}

/// Trains and writes the dictionary, and reports its benefit. The file is written only if no error
/// occurred.
///
/// # Errors
/// There are too few data to train it with, training fails, or the user presses Ctrl-C.
pub(crate) fn run(args: &TrainArgs, interrupt: &Interrupt) -> Result<Outcome, Error> {
    output::check(&args.output, &args.paths)?;
    let skipped = SkippedFiles::default();
    let plan = pages::plan(&args.paths, None, Wanted::Readable, &skipped, interrupt)?;
    let source = PageReader { plan: &plan, skipped: &skipped };
    let samples = Samples::read(&source, args.block, interrupt)?;
    samples.check(args.size).map_err(|why| Error::Failed(skipped.explain(why)))?;

    let progress = Progress::unknown("training");
    let trained = zcomp::train(&samples.training, args.block, args.size);
    progress.finish();
    interrupt.check()?;
    let dictionary = trained?;
    let codecs = evaluation::run(&dictionary, &samples, interrupt)?;

    let report = Report {
        dictionary: escaped(&args.output),
        dictionary_bytes: dictionary.bytes().len(),
        block: args.block,
        files: plan.files(),
        blocks_trained: samples.training.len() / args.block,
        blocks_held_out: samples.held_out.len() / args.block,
        skipped_files: skipped.count(SkipReason::Unreadable),
        data_bytes: samples.bytes_of_all,
        codecs,
    };
    output::write(&args.output, 0o666, |file| {
        file.write_all(dictionary.bytes()).map_err(output::failed(&args.output))
    })?;
    let text = if args.json { json(&report) } else { report.table() };
    Ok(Outcome { text, warnings: skipped.lines(), failure: None })
}

impl Report {
    fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let Report { dictionary, dictionary_bytes, block, .. } = self;
        writeln!(out, "'{dictionary}': {dictionary_bytes} bytes, for blocks of {block} bytes")?;
        let trained = counted(self.blocks_trained as u64, "block");
        write!(out, "trained with {trained} of {}, tried on ", counted(self.files, "file"))?;
        writeln!(out, "{} others:\n", self.blocks_held_out)?;
        writeln!(out, "{:>31}  {:>17}  {:>17}", "ratio", "compress MB/s", "decompress MB/s")?;
        write!(out, "{:9}{:>6}{:>8}{:>8}  ", "codec", "level", "without", "with")?;
        writeln!(
            out,
            "{0:>9}{1:>8}  {0:>9}{1:>8}  {2:>7} {3:>10}",
            "without", "with", "saved", "memory"
        )?;
        self.codecs.iter().try_for_each(|evaluation| row(out, evaluation))?;
        writeln!(out, "\nMB/s of processor time; saved: less stored; memory: for the dictionary")?;
        writeln!(out, "\nmemory of a device with all {}:", human(self.data_bytes))?;
        self.codecs.iter().try_for_each(|evaluation| verdict(out, evaluation))
    }
}

fn row(out: &mut String, evaluation: &Evaluation) -> fmt::Result {
    let Evaluation { algorithm, level, without, with, .. } = evaluation;
    write!(out, "{algorithm:9}{level:>6}{:>8.3}{:>8.3}  ", without.ratio, with.ratio)?;
    write!(out, "{:>9.1}{:>8.1}  ", without.compress_mb_s, with.compress_mb_s)?;
    write!(out, "{:>9.1}{:>8.1}  ", without.decompress_mb_s, with.decompress_mb_s)?;
    let memory = human(evaluation.dictionary_memory);
    let saved = 100.0 * (1.0 - with.stored as f64 / without.stored as f64);
    writeln!(out, "{saved:>+6.1}% {memory:>10}")
}

fn verdict(out: &mut String, evaluation: &Evaluation) -> fmt::Result {
    let Evaluation { algorithm, without, with, pays_from, .. } = evaluation;
    let pays = if with.memory < without.memory { "pays" } else { "does not pay" };
    let (before, after) = (human(without.memory), human(with.memory));
    let from = pays_from.map_or_else(|| "never".to_owned(), human);
    writeln!(
        out,
        "with {algorithm} it {pays}: {before} without, {after} with it; break-even: {from}"
    )
}
