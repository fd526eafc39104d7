//! What clap has to say: help as it is, errors on one line.

use crate::error::{USAGE, report};
use crate::log::log;
use crate::print_result;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use measure::text::shortened;
use std::ffi::OsStr;
use std::process::ExitCode;

/// Prints why a command line leads to nothing; the code to end with comes back. `first` is its
/// first argument, which names the subcommand whose help may be of use.
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

/// Returns what is wrong on one line, in which no value is long.
pub(crate) fn told(mut error: clap::Error) -> String {
    let long: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, shortened(text), text.len())),
            _ => None,
        })
        .filter(|(_, short, len)| short.len() < *len)
        .collect();
    // Tips repeat values too.
    if !long.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::None);
    }
    for (kind, text, _) in long {
        error.insert(kind, ContextValue::String(text));
    }
    one_line(&error.render().to_string())
}

/// How to ask for the help that is wanted.
fn help_of(cli: &Command, first: Option<&OsStr>) -> String {
    match first.and_then(|name| cli.find_subcommand(name)) {
        Some(command) => format!("{} {} --help", cli.get_name(), command.get_name()),
        None => format!("{} --help", cli.get_name()),
    }
}

/// Returns what clap says in paragraphs, without the usage, on one line.
fn one_line(text: &str) -> String {
    let told = text.split("\n\n").filter(|part| {
        let part = part.trim_start();
        !part.starts_with("Usage:") && !part.starts_with("For more information")
    });
    let lines = told.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let line = lines.collect::<Vec<_>>().join("; ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    line.chars().flat_map(plain).collect()
}

/// Returns a character as it may be printed.
fn plain(c: char) -> impl Iterator<Item = char> {
    let escape = c.is_control().then(|| c.escape_default());
    let kept = escape.is_none().then_some(c);
    escape.into_iter().flatten().chain(kept)
}
