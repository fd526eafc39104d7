//! Prints clap's output: help unchanged, and errors on one line.

use crate::error::{USAGE, report};
use crate::log::log;
use crate::print_result;
use crate::text::{one_line, shortened};
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsStr;
use std::process::ExitCode;

/// Prints why a command line is refused, and returns the exit code. `first` is the first argument,
/// which can name the subcommand whose help is useful.
pub(crate) fn refuse(error: clap::Error, cli: &Command, first: Option<&OsStr>) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print_result(error.print()).map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(USAGE)
        }
        _ => {
            log!("{}; see '{}'", told(error), help_of(cli, first));
            ExitCode::from(USAGE)
        }
    }
}

/// Returns the error on one line, with shortened values.
pub(crate) fn told(mut error: clap::Error) -> String {
    let long: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, shortened(text), text.len())),
            _ => None,
        })
        .filter(|(_, short, len)| short.len() < *len)
        .collect();
    // Removes clap's tips, because they repeat the long values.
    if !long.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::None);
    }
    for (kind, text, _) in long {
        error.insert(kind, ContextValue::String(text));
    }
    without_usage(&error.render().to_string())
}

/// Returns the command line that prints the help of the subcommand `first`.
fn help_of(cli: &Command, first: Option<&OsStr>) -> String {
    match first.and_then(|name| cli.find_subcommand(name)) {
        Some(command) => format!("{} {} --help", cli.get_name(), command.get_name()),
        None => format!("{} --help", cli.get_name()),
    }
}

/// Returns clap's paragraphs, except the usage, on one line.
fn without_usage(text: &str) -> String {
    let told = text.split("\n\n").filter(|part| {
        let part = part.trim_start();
        !part.starts_with("Usage:") && !part.starts_with("For more information")
    });
    let line = told.map(one_line).collect::<Vec<_>>().join("; ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let printable = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    line.chars().map(printable).collect()
}
