//! Runs the commands that measure, and prints their results.

use crate::error::{Error, no_handler};
use crate::log::log;
use crate::print;
use measure::Interrupt;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::sync::Arc;

/// The output and the result of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    /// The warnings about data that were left out, one per line.
    pub(crate) warnings: Vec<String>,
    /// The error of a command that printed a report but was not fully successful.
    pub(crate) failure: Option<Error>,
}

/// Runs a command that Ctrl-C can interrupt. Prints the report to standard output, and warnings to
/// standard error.
pub(crate) fn measured(
    run: impl FnOnce(&Interrupt) -> Result<Outcome, Error>,
) -> Result<(), Error> {
    let outcome = run(&interrupt()?)?;
    print(&outcome.text)?;
    outcome.warnings.iter().for_each(|warning| log!("warning: {warning}"));
    outcome.failure.map_or(Ok(()), Err)
}

/// Installs the handlers of SIGINT. The first SIGINT sets the flag. A second SIGINT ends the
/// process at once.
pub(crate) fn interrupt() -> Result<Interrupt, Error> {
    let interrupt = Interrupt::default();
    flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupt.0))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupt.0)))
        .map_err(no_handler)?;
    Ok(interrupt)
}
