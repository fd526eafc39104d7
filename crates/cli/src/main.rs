//! The command `uzram`: arguments to typed calls, their results to tables and exit codes.
//!
//! ```text
//!   args -> input: walk -> plan of files -> fill: workers
//!             worker: source reads a batch -> raw codec and device, timed -> totals
//!   totals + device statistics + memory -> report: table or JSON
//!   args -> saved file -> device -> report, image
//!   args -> geometry -> classes: table or JSON;  zram's attributes -> table or JSON
//!   args -> input: walk -> plan -> samples -> zcomp::train -> evaluation on what was held out -> file, report
//!   args -> server: device, sockets, servers until a signal;  args -> client: a server's control socket -> text, table
//! ```
//!
//! Exit codes: 0 done; 1 it failed, as when not all came back; 2 wrong use; 130 interrupted.
#![deny(clippy::print_stderr)]

mod args;
mod attributes;
mod cgroup;
mod classes;
mod client;
mod cold_options;
mod error;
mod evaluation;
mod fill;
mod geometry;
mod input;
mod interrupt;
mod job;
mod log;
mod memory;
mod output;
mod page_checksums;
mod plan;
mod process_start;
mod progress;
mod raw;
mod report;
mod reserve;
mod restore;
mod samples;
mod server;
mod skipped_files;
mod socket_dir;
mod source;
mod status;
mod table;
mod thread_pool;
mod totals;
mod train;
mod units;
mod usage_error;
mod worker;

use args::{Command, FillArgs, Form, RestoreArgs, TrainArgs};
use error::Error;
use interrupt::Interrupt;
use log::log;
use reserve::Reserved;
use std::alloc::System;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// All memory but the pool's pages.
#[global_allocator]
static MEMORY: Reserved<System> = Reserved::new(System);

fn main() -> ExitCode {
    process_start::prepare();
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
        Command::Serve(args) => server::run(&args),
        Command::Client(args) => client::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
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
    outcome.warnings.iter().for_each(|warning| log!("warning: {warning}"));
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
    outcome.warnings.iter().for_each(|warning| log!("warning: {warning}"));
    Ok(())
}

/// Writes to standard output.
fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    print_result(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of standard output. A reader that has gone away wants no more, and that is no error.
fn print_result(written: std::io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}
