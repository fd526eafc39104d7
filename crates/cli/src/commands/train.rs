//! `uzram train-dictionary`: reads blocks of files, trains a dictionary with most of them, and
//! tries the dictionary on the held-out blocks.

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
use std::io::Write as _;

pub(crate) use args::TrainArgs;

const HEAD: &str = "                          ratio      compress MB/s    decompress MB/s
codec     level without    with    without    with    without    with    saved     memory
";

#[derive(Debug, Serialize)]
struct Report {
    dictionary: String,
    dictionary_bytes: usize,
    block: usize,
    files: u64,
    /// The number of blocks that trained the dictionary, and the number of held-out blocks.
    blocks_trained: usize,
    blocks_held_out: usize,
    skipped_files: u64,
    /// The size of all files in bytes, rounded up to whole pages.
    data_bytes: u64,
    codecs: Vec<Evaluation>,
}

/// Trains the dictionary, reports its benefit, and writes the file. The file is written only if no
/// error occurred.
///
/// # Errors
/// Fails if the files hold too little data, training fails, or the user presses Ctrl-C.
pub(crate) fn run(args: &TrainArgs, interrupt: &Interrupt) -> Result<Outcome, Error> {
    output::check(&args.output, &args.paths)?;
    let skipped = SkippedFiles::default();
    let plan = pages::plan(&args.paths, None, Wanted::Readable, &skipped, interrupt)?;
    let source = PageReader { plan: &plan, skipped: &skipped };
    let samples = Samples::read(&source, args.block, interrupt)?;
    samples.check(args.size).map_err(|why| Error::Failed(skipped.explain(why)))?;

    let progress = Progress::unknown("training");
    let trained = zcomp::train(&samples.training, args.block, args.size);
    drop(progress);
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
        let Report { dictionary, dictionary_bytes, block, blocks_held_out, .. } = self;
        let trained = counted(self.blocks_trained as u64, "block");
        let (files, all) = (counted(self.files, "file"), human(self.data_bytes));
        let rows: String = self.codecs.iter().map(row).collect();
        let verdicts: String = self.codecs.iter().map(verdict).collect();
        format!(
            "'{dictionary}': {dictionary_bytes} bytes, for blocks of {block} bytes\n\
             trained with {trained} of {files}, tried on {blocks_held_out} others:\n\n\
             {HEAD}{rows}\n\
             MB/s of processor time; saved: less stored; memory: for the dictionary\n\n\
             memory of a device with all {all}:\n{verdicts}"
        )
    }
}

fn row(evaluation: &Evaluation) -> String {
    let Evaluation { algorithm, level, without, with, .. } = evaluation;
    let memory = human(evaluation.dictionary_memory);
    let saved = 100.0 * (1.0 - with.stored as f64 / without.stored as f64);
    format!(
        "{algorithm:9}{level:>6}{:>8.3}{:>8.3}  {:>9.1}{:>8.1}  {:>9.1}{:>8.1}  \
         {saved:>+6.1}% {memory:>10}\n",
        without.ratio,
        with.ratio,
        without.compress_mb_s,
        with.compress_mb_s,
        without.decompress_mb_s,
        with.decompress_mb_s,
    )
}

fn verdict(evaluation: &Evaluation) -> String {
    let Evaluation { algorithm, without, with, pays_from, .. } = evaluation;
    let pays = if with.memory < without.memory { "pays" } else { "does not pay" };
    let (before, after) = (human(without.memory), human(with.memory));
    let from = pays_from.map_or_else(|| "never".to_owned(), human);
    format!("with {algorithm} it {pays}: {before} without, {after} with it; break-even: {from}\n")
}
