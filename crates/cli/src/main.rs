//! The command `uzram`: turns arguments into typed calls, and their results into tables and exit
//! codes.
//!
//! ```text
//!   args -> measure: fill, analyze, train-dictionary, classes -> report, warnings
//!   args -> saved file -> device -> report, image
//!   zram's attributes -> table or JSON
//!   [configuration file ->] args -> server: device, sockets, servers until a signal
//!   args -> run: host, limit -> the program, in place of this one or as its child -> figures
//!   args -> client: a server's control socket -> text, table
//! ```
//!
//! Exit codes: 0 success; 1 failure, such as lost data; 2 wrong use; 130 interrupted. `run` exits
//! with the code of its program.
#![deny(clippy::print_stderr)]

mod admin;
mod args;
mod attributes;
mod client;
mod config;
mod documents;
mod error;
mod log;
mod process_start;
mod reserve;
mod restore;
mod run;
mod server;
mod socket_dir;
mod status;
mod usage_error;

use args::{Command, RestoreArgs};
use error::{Error, no_handler};
use log::log;
use measure::analyze::AnalyzeArgs;
use measure::fill::FillArgs;
use measure::train::TrainArgs;
use measure::{Interrupt, Outcome, output};
use reserve::Reserved;
use std::alloc::System;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use zram::JobKind;

/// The allocator of all memory except the pool's pages.
#[global_allocator]
static MEMORY: Reserved<System> = Reserved::new(System);

fn main() -> ExitCode {
    process_start::prepare();
    if !process_start::has_memory() {
        // Writing this line allocates nothing. If the write fails, only the exit code reports the
        // failure.
        let _ = std::io::stderr().write_all(
            b"uzram: there is too little memory or address space to start; raise 'ulimit -v'\n",
        );
        return ExitCode::FAILURE;
    }
    let command = match args::parse() {
        Ok(command) => command,
        Err(exit) => return exit,
    };
    // `run` only executes a program or waits for it, which needs no large stack.
    if !matches!(command, Command::Run(_)) {
        process_start::provide_stack();
    }
    let done = match command {
        Command::Fill(args) => fill(&args),
        Command::Classes(args) => measure::classes::run(&args).and_then(|text| print(&text)),
        Command::Run(args) => return run::run(&args),
        Command::Restore(args) => restore(&args),
        Command::Attributes(args) => print(&attributes::run(&args)),
        Command::TrainDictionary(args) => train(&args),
        Command::Analyze(args) => analyze(&args),
        Command::Serve(args) => server::run(&args),
        Command::Generate(args) => documents::run(&args, args::cli()),
        Command::Client(command) => client::run(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error::report(&error),
    }
}

/// Runs `uzram fill`.
fn fill(args: &FillArgs) -> Result<(), Error> {
    let interrupt = Interrupt::install().map_err(no_handler)?;
    report(measure::fill::run(args, &interrupt)?)
}

/// Runs `uzram analyze`.
fn analyze(args: &AnalyzeArgs) -> Result<(), Error> {
    let interrupt = Interrupt::install().map_err(no_handler)?;
    report(measure::analyze::run(args, &interrupt)?)
}

/// Prints the report to standard output, and warnings to standard error.
fn report(outcome: Outcome) -> Result<(), Error> {
    print(&outcome.text)?;
    outcome.warnings.iter().for_each(|warning| log!("warning: {warning}"));
    outcome.failure.map_or(Ok(()), Err)
}

/// Runs `uzram restore`, in this process or in a running server.
fn restore(args: &RestoreArgs) -> Result<(), Error> {
    if args.served {
        return client::on_file(&args.server, JobKind::Restore, &args.file, args.json);
    }
    restore::run(args)
}

/// Runs `uzram train-dictionary`. The dictionary's file is written only if no error occurred.
fn train(args: &TrainArgs) -> Result<(), Error> {
    let interrupt = Interrupt::install().map_err(no_handler)?;
    let (dictionary, outcome) = measure::train::run(args, &interrupt)?;
    output::write(args.output(), 0o666, |file| {
        file.write_all(dictionary.bytes()).map_err(output::failed(args.output()))
    })?;
    report(outcome)
}

/// Writes to standard output.
fn print(text: &str) -> Result<(), Error> {
    print_on(text).map(drop)
}

/// Writes to standard output. Returns whether standard output still has a reader.
fn print_on(text: &str) -> Result<bool, Error> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    let is_read = written.is_ok();
    print_result(written).map(|()| is_read)
}

/// Converts the result of writing to standard output. A closed pipe is not an error, because the
/// reader needs no more output.
fn print_result(written: std::io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Failed(format!(
            "can't write to standard output: {error}; check where it is redirected"
        ))),
        _ => Ok(()),
    }
}
