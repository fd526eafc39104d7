//! `uzram stat PID`: prints the statistics of a program that `uzram run` has started, as a table,
//! as metrics, or as one line per second.

mod metrics;
mod watch;

use crate::admin::watch::run as watched;
use crate::args::StatArgs;
use crate::error::{Error, failed};
use crate::run::table::table;
use crate::text::json;
use run::find;
use rustix::process::Pid;

/// Prints the statistics of the program to which `process` belongs.
pub(super) fn stat(process: Pid, args: &StatArgs) -> Result<(), Error> {
    let program = find(process).map_err(failed)?;
    if args.watch {
        return watched(program, args.json);
    }
    crate::print(&match args {
        StatArgs { prometheus: true, .. } => metrics::text(&program),
        StatArgs { json: true, .. } => json(&program.figures()),
        _ => table(&program.figures()),
    })
}
