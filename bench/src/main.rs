//! The command `bench`: runs one experiment and prints its figures.

use std::io;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

use bench::experiments::{Experiment, Request, run as programs, serve, slab, zmem};
use bench::inputs::{Cache, Input};
use bench::report::{Form, Report, Verdict};
use bench::size;
use bench::stores::{self, StoreKind};
use bench::{Error, documents};

const FAILED: u8 = 1;
const SEED_DEFAULT: &str = "0x757a72616d";

/// What is given instead of an experiment to a process that an experiment starts.
const HOLDERS: [&str; 6] = ["store", "objects", "messages", "serve", "region", "launch"];

/// Measures uzram and its rivals on real input.
///
/// Ends with 0 if every figure is what it must be, 1 if one is not or could not be measured, 2 on
/// wrong use.
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// What to measure
    #[arg(value_enum, required_unless_present_any = HOLDERS)]
    experiment: Option<Experiment>,
    /// One JSON object per figure and line instead of a table
    #[arg(long)]
    json: bool,
    /// What is drawn by chance is drawn from this number
    #[arg(long, global = true, default_value = SEED_DEFAULT, value_parser = seed)]
    seed: u64,
    /// Most bytes of each input, such as 64M (default: what the experiment takes; mostly the whole
    /// heap, 1G of the others)
    #[arg(long, value_name = "SIZE", value_parser = zram::memparse::parse)]
    limit: Option<u64>,
    /// Operations of churn (default: 10000000), of a turn of malloc (100000) or pause (300000)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Only this input; may be given more than once (default: those that the experiment is about)
    #[arg(long = "input", value_enum)]
    inputs: Vec<Input>,
    /// Only this program of run-jobs, run-overhead and run-programs; may be given more than once
    #[arg(long = "program", value_parser = PossibleValuesParser::new(programs::names()))]
    programs: Vec<String>,
    /// Holds a store for an experiment that was started before: see `bench::stores`
    #[arg(long, hide = true, value_enum, conflicts_with = "experiment")]
    store: Option<StoreKind>,
    /// Holds objects for an experiment that was started before: see `bench::experiments::slab`
    #[arg(long, hide = true, conflicts_with = "experiment")]
    objects: Option<String>,
    /// Exchanges messages for an experiment that was started before
    #[arg(long, hide = true, conflicts_with = "experiment")]
    messages: Option<String>,
    /// Serves a device for an experiment that was started before
    #[arg(long, hide = true, conflicts_with = "experiment")]
    serve: Option<String>,
    /// Holds a region for an experiment that was started before
    #[arg(long, hide = true, conflicts_with = "experiment")]
    region: Option<String>,
    /// Becomes a program for an experiment that was started before
    #[arg(long, hide = true, conflicts_with = "experiment")]
    launch: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Repeats the experiments of the documents that uzram implements, and writes a report
    Experiments(documents::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(Verdict::Pass) => ExitCode::SUCCESS,
        Ok(Verdict::Fail) => ExitCode::from(FAILED),
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn run(arguments: Arguments) -> Result<Verdict, Error> {
    let Arguments {
        command,
        experiment,
        json,
        seed,
        limit,
        operations,
        inputs,
        programs,
        store,
        objects,
        messages,
        serve,
        region,
        launch,
    } = arguments;
    if let Some(order) = objects {
        return slab::hold(&order).map(|()| Verdict::Pass);
    }
    if let Some(order) = messages {
        return slab::exchange_ordered(&order).map(|()| Verdict::Pass);
    }
    if let Some(order) = serve {
        return serve::hold(&order).map(|()| Verdict::Pass);
    }
    if let Some(order) = region {
        return zmem::hold(&order).map(|()| Verdict::Pass);
    }
    if let Some(order) = launch {
        return programs::launch(&order).map(|never| match never {});
    }
    if let Some(Command::Experiments(arguments)) = command {
        let request =
            Request { cache: Cache::from_env(), seed, limit, operations, inputs, programs };
        return documents::run(&arguments, &request);
    }
    let Some(experiment) = experiment else {
        return store.map_or(Ok(()), stores::serve).map(|()| Verdict::Pass);
    };
    let request = Request { cache: Cache::from_env(), seed, limit, operations, inputs, programs };
    let mut out = io::stdout();
    let mut report = Report::new(if json { Form::Json } else { Form::Table }, seed, &mut out);
    eprintln!("bench: seed {seed:#x}");
    // What was measured before an error is told all the same.
    let measured = experiment.run(&request, &mut report);
    let verdict = report.finish()?;
    measured.map(|()| verdict)
}

fn seed(text: &str) -> Result<u64, String> {
    size::number(text)
        .ok_or_else(|| format!("{text:?} is no number; give a decimal or 0x number of 64 bits"))
}
