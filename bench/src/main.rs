//! The command `bench`, which runs one experiment and prints its figures.

use std::io;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

use bench::documents::messaging;
use bench::experiments::{Experiment, Request, run as programs, serve, zmem};
use bench::inputs::{Cache, Input};
use bench::own::{self, Task};
use bench::report::{Form, Report, Verdict};
use bench::size;
use bench::{Error, documents};

const FAILED: u8 = 1;
const SEED_DEFAULT: &str = "0x757a72616d";

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
    #[arg(value_enum, required_unless_present = "task")]
    experiment: Option<Experiment>,
    /// Print one JSON object per figure and line instead of a table
    #[arg(long)]
    json: bool,
    /// Seed of all random choices
    #[arg(long, global = true, default_value = SEED_DEFAULT, value_parser = seed)]
    seed: u64,
    /// Largest number of bytes of each input, such as 64M (default: chosen by the experiment; for
    /// most, the whole heap and 1G of each other input)
    #[arg(long, value_name = "SIZE", value_parser = zram::memparse::parse)]
    limit: Option<u64>,
    /// Number of operations in a turn of grow (default: 100000), or number of rounds of zmem and
    /// run
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Use only this input; may be given more than once (default: the inputs of the experiment)
    #[arg(long = "input", value_enum)]
    inputs: Vec<Input>,
    /// Run only this program of run-jobs, run-overhead and run-programs; may be given more than
    /// once
    #[arg(long = "program", value_parser = PossibleValuesParser::new(programs::names()))]
    programs: Vec<String>,
    /// Do a task for the experiment that started this process
    #[arg(long, hide = true, value_enum, requires = "order", conflicts_with = "experiment")]
    task: Option<Task>,
    /// The instructions of the task
    #[arg(long, hide = true, requires = "task")]
    order: Option<String>,
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
    let Arguments { command, json, seed, limit, operations, inputs, programs, .. } = arguments;
    if let Some((task, order)) = arguments.task.zip(arguments.order) {
        return carry_out(task, &order).map(|()| Verdict::Pass);
    }
    let request = Request { cache: Cache::from_env(), seed, limit, operations, inputs, programs };
    if let Some(Command::Experiments(arguments)) = command {
        return documents::run(&arguments, &request);
    }
    let Some(experiment) = arguments.experiment else { return Ok(Verdict::Pass) };
    let mut out = io::stdout();
    let mut report = Report::new(if json { Form::Json } else { Form::Table }, seed, &mut out);
    eprintln!("bench: seed {seed:#x}");
    // After an error, the figures measured before the error are still reported.
    let measured = experiment.run(&request, &mut report);
    let verdict = report.finish()?;
    measured.map(|()| verdict)
}

fn carry_out(task: Task, order: &str) -> Result<(), Error> {
    match task {
        Task::Exchange => messaging::exchange(own::order(order)?),
        Task::Launch => programs::launch(own::order(order)?).map(|never| match never {}),
        Task::Region => zmem::hold(own::order(order)?),
        Task::Serve => serve::hold(own::order(order)?),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    size::number(text)
        .ok_or_else(|| format!("{text:?} is no number; give a decimal or 0x number of 64 bits"))
}
