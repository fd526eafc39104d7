//! The command `uzram`: converts arguments to function calls, and the results of these calls to
//! tables and exit codes.
//!
//! ```text
//!   args -> commands: fill, analyze, train-dictionary, classes -> report, warnings
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
mod backing;
mod client;
mod commands;
mod config;
mod documents;
mod error;
mod log;
mod memory;
mod output;
mod policy;
mod process_start;
mod process_status;
mod progress;
mod reserve;
mod restore;
mod run;
mod server;
mod setting;
mod socket_dir;
mod status;
mod text;
mod usage_error;
mod values;

use args::{Command, RestoreArgs};
use commands::{analyze, classes, fill, measured, train};
use error::Error;
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
        // Writing this line allocates no memory. If the write fails, only the exit code reports the
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
    // `uzram run` only executes a program or waits for its end, so it needs no large stack.
    if !matches!(command, Command::Run(_)) {
        process_start::provide_stack();
    }
    let done = match command {
        Command::Fill(args) => measured(|interrupt| fill::run(&args, interrupt)),
        Command::Classes(args) => classes::run(&args).and_then(|text| print(&text)),
        Command::Run(args) => return run::run(&args),
        Command::Restore(args) => restore(&args),
        Command::Attributes(args) => print(&attributes::run(&args)),
        Command::TrainDictionary(args) => measured(|interrupt| train::run(&args, interrupt)),
        Command::Analyze(args) => measured(|interrupt| analyze::run(&args, interrupt)),
        Command::Serve(args) => server::run(&args),
        Command::Generate(args) => documents::run(&args, args::cli()),
        Command::Client(command) => client::run(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error::report(&error),
    }
}

/// Runs `uzram restore`, in this process or in a running server.
fn restore(args: &RestoreArgs) -> Result<(), Error> {
    if args.served {
        return client::on_file(&args.server, JobKind::Restore, &args.file, args.json);
    }
    restore::run(args)
}

fn print(text: &str) -> Result<(), Error> {
    print_on(text).map(drop)
}

/// Returns false if the reader has closed the pipe.
fn print_on(text: &str) -> Result<bool, Error> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    let is_read = written.is_ok();
    print_result(written).map(|()| is_read)
}

/// Converts the result of a write to standard output. A closed pipe is no error, because its reader
/// needs no more output.
fn print_result(written: std::io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Failed(format!(
            "can't write to standard output: {error}; check where it is redirected"
        ))),
        _ => Ok(()),
    }
}
