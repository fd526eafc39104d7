//! `uzram run`: runs a program whose memory a host (`uzram-host`) compresses.

mod args;
pub(crate) mod table;

use crate::error::{self, Error, failed, no_handler};
use crate::log::{self, log};
use crate::memory::cgroup_limit;
use crate::output::check_name;
use crate::process_start::keep_pipe_signal;
use crate::process_status::ignored_signals;
use crate::text::json;
pub(crate) use args::RunArgs;
use run::{Options, Refusal, Start, Stats};
use std::process::ExitCode;
use zcomp::Params;

/// The exit code for a program that exists but can't be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The exit code for a program that does not exist.
const NOT_FOUND: u8 = 127;

/// Executes `uzram run`, and returns the exit code. Does not return if the program replaces this
/// process.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let options = match options(args) {
        Ok(options) => options,
        Err(error) => return error::report(&error),
    };
    let start = Start::new(&args.command, options, keep_pipe_signal);
    let ended = start.and_then(|start| match args.stats {
        true => start.watch(ignored_signals()),
        false => Err(start.exec()),
    });
    match ended {
        Ok((code, figures)) => {
            log::text(&if args.json { json(&figures) } else { table::table(&figures) });
            ExitCode::from(code)
        }
        Err(refusal) => refused(refusal),
    }
}

/// Prints why a program was not started. Returns the exit code that a shell would return.
fn refused(refusal: Refusal) -> ExitCode {
    let code = match refusal {
        Refusal::NotExecutable(_) => NOT_EXECUTABLE,
        Refusal::NotFound(_) => NOT_FOUND,
        Refusal::Handlers(error) => return error::report(&no_handler(error)),
        Refusal::Usage(message) => return error::report(&Error::Usage(message)),
        _ => return error::report(&failed(refusal)),
    };
    log!("{refusal}");
    ExitCode::from(code)
}

fn options(args: &RunArgs) -> Result<Options<'_>, Error> {
    if !cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
        return Err(failed(
            "programs can't be run with their memory compressed: that is done on x86-64 only; run \
             them without 'uzram run'",
        ));
    }
    let limit = args.limit.unwrap_or_default().bytes(cgroup_limit)?;
    if args.level.is_some() {
        let params = Params { level: args.level, ..Params::default() };
        args.algorithm.check(&params).map_err(Error::level)?;
    }
    let stats = match &args.stats_file {
        Some(path) => {
            check_name(path)?;
            Stats::File(path)
        }
        None if args.stats => Stats::Temporary,
        None => Stats::None,
    };
    Ok(Options {
        limit,
        block: args.block,
        algorithm: args.algorithm.name(),
        level: args.level,
        backend: &args.backend,
        is_first_only: args.first_only,
        may_inject: !args.no_inject,
        stats,
    })
}
