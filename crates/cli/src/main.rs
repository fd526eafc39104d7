//! The command `uzram`: arguments to typed calls, their results to tables and exit codes.
//!
//! ```text
//!   args -> input: walk -> plan of files -> fill: workers
//!             worker: source reads a batch -> raw codec and device, timed -> tally
//!   tallies + device statistics + memory -> report: table or JSON
//!   args -> saved file -> device -> report, image
//!   args -> geometry -> classes: table or JSON;  zram's attributes -> table or JSON
//!   args -> input: walk -> plan -> samples -> zcomp::train -> trial on what was held out -> file, report
//!   args -> serving: device, sockets, servers until a signal;  args -> ask: a server's control socket -> text, table
//! ```
//!
//! Exit codes: 0 done; 1 it failed, as when not all came back; 2 wrong use; 130 interrupted.
#![deny(clippy::print_stderr)]

mod args;
mod ask;
mod attributes;
mod cgroup;
mod classes;
mod cold;
mod crew;
mod error;
mod fill;
mod geometry;
mod input;
mod interrupt;
mod job;
mod memory;
mod notices;
mod outfile;
mod plan;
mod progress;
mod raw;
mod refusal;
mod report;
mod reserve;
mod restore;
mod runtime;
mod samples;
mod say;
mod served;
mod serving;
mod source;
mod start;
mod sums;
mod table;
mod tally;
mod train;
mod trial;
mod units;
mod worker;

use args::{Command, FillArgs, Form, RestoreArgs, TrainArgs};
use error::Error;
use interrupt::Interrupt;
use reserve::Reserved;
use say::say;
use std::alloc::System;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// All memory but the pool's pages.
#[global_allocator]
static MEMORY: Reserved<System> = Reserved::new(System);

fn main() -> ExitCode {
    start::prepare();
    let command = match args::parse() {
        Ok(command) => command,
        Err(exit) => return exit,
    };
    let done = match command {
        Command::Fill(args) => fill(&args),
        Command::Classes(args) => print(&classes::run(&args)),
        Command::Restore(args) => restore(&args),
        Command::Attributes(form) => print(&attributes::run(form)),
        Command::TrainDictionary(args) => train(&args),
        Command::Serve(args) => serving::run(&args),
        Command::Ask(args) => ask::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.tell(),
    }
}

/// Runs `uzram fill`: the report goes to standard output, warnings to standard error.
fn fill(args: &FillArgs) -> Result<(), Error> {
    let interrupt = Interrupt::install()?;
    let outcome = fill::run(args, &interrupt)?;
    print(&match args.form {
        Form::Json => outcome.report.json(),
        Form::Table => table::render(&outcome.report),
    })?;
    outcome.warnings.iter().for_each(|warning| say!("warning: {warning}"));
    outcome.failure.map_or(Ok(()), Err)
}

/// Runs `uzram restore`, as [`fill`].
fn restore(args: &RestoreArgs) -> Result<(), Error> {
    let (text, failure) = restore::run(args)?;
    print(&text)?;
    failure.map_or(Ok(()), Err)
}

/// Runs `uzram train-dictionary`, as [`fill`].
fn train(args: &TrainArgs) -> Result<(), Error> {
    let outcome = train::run(args, &Interrupt::install()?)?;
    print(&outcome.text)?;
    outcome.warnings.iter().for_each(|warning| say!("warning: {warning}"));
    Ok(())
}

/// Writes to standard output.
fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of standard output. A reader that has gone away wants no more, and that is no error.
fn printed(written: std::io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}
