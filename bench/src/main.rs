//! The command `bench`, which runs one experiment and prints its figures.

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

/// The arguments that replace the experiment in a process that an experiment starts.
const HOLDERS: [&str; 6] = ["store", "objects", "messages", "serve", "region", "launch"];

/// Measure uzram and its rivals on real input.
///
/// Exits with 0 if every figure meets its bound, 1 if a figure misses its bound or could not be
/// measured, and 2 on wrong use.
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Experiment to run
    #[arg(value_enum, required_unless_present_any = HOLDERS)]
    experiment: Option<Experiment>,
    /// Print one JSON object per figure and line instead of a table
    #[arg(long)]
    json: bool,
    /// Seed of all random choices
    #[arg(long, global = true, default_value = SEED_DEFAULT, value_parser = seed)]
    seed: u64,
    /// Largest number of bytes of each input, such as 64M (default: chosen by the experiment; for
    /// most, the whole heap and 1G of the others)
    #[arg(long, value_name = "SIZE", value_parser = zram::memparse::parse)]
    limit: Option<u64>,
    /// Number of operations of churn (default: 10000000), or of a turn of malloc (100000) or pause
    /// (300000)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Use only this input; may be given more than once (default: the inputs of the experiment)
    #[arg(long = "input", value_enum)]
    inputs: Vec<Input>,
    /// Run only this program of run-jobs, run-overhead and run-programs; may be given more than
    /// once
    #[arg(long = "program", value_parser = PossibleValuesParser::new(programs::names()))]
    programs: Vec<String>,
    /// Hold a store for the experiment that started this process: see `bench::stores`
    #[arg(long, hide = true, value_enum, conflicts_with = "experiment")]
    store: Option<StoreKind>,
    /// Hold objects for the experiment that started this process: see `bench::experiments::slab`
    #[arg(long, hide = true, conflicts_with = "experiment")]
    objects: Option<String>,
    /// Exchange messages for the experiment that started this process
    #[arg(long, hide = true, conflicts_with = "experiment")]
    messages: Option<String>,
    /// Serve a device for the experiment that started this process
    #[arg(long, hide = true, conflicts_with = "experiment")]
    serve: Option<String>,
    /// Hold a region for the experiment that started this process
    #[arg(long, hide = true, conflicts_with = "experiment")]
    region: Option<String>,
    /// Execute a program for the experiment that started this process
    #[arg(long, hide = true, conflicts_with = "experiment")]
    launch: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Repeat the experiments of the documents that uzram implements, and write a report
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
    // Figures measured before an error are reported too.
    let measured = experiment.run(&request, &mut report);
    let verdict = report.finish()?;
    measured.map(|()| verdict)
}

fn seed(text: &str) -> Result<u64, String> {
    size::number(text)
        .ok_or_else(|| format!("{text:?} is no number; give a decimal or 0x number of 64 bits"))
}
