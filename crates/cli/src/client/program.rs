//! `uzram stat PID`: the figures of a program that `uzram run` has started, as a table, as metrics,
//! or as one line per second.

mod metrics;
mod watch;

use crate::admin::watch::run as watched;
use crate::error::{Error, failed};
use crate::run::table::table;
use crate::text::json;
use run::find;
use rustix::process::Pid;

/// The output format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) is_watched: bool,
    pub(super) is_for_prometheus: bool,
    pub(super) is_json: bool,
}

/// Prints the figures of the program to which `process` belongs.
pub(super) fn stat(process: Pid, shown: Shown) -> Result<(), Error> {
    let program = find(process).map_err(failed)?;
    match shown {
        Shown { is_watched: true, is_json, .. } => watched(program, is_json),
        Shown { is_for_prometheus: true, .. } => crate::print(&metrics::text(&program)),
        Shown { is_json: true, .. } => crate::print(&json(&program.figures())),
        _ => crate::print(&table(&program.figures())),
    }
}
