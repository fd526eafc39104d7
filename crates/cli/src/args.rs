//! The command line, as typed values.

mod client;
mod restore;
mod server;

pub(crate) use client::{ClientCommand, ControlArgs, StatArgs};
pub(crate) use restore::RestoreArgs;
pub(crate) use server::ServeArgs;

use crate::commands::analyze::AnalyzeArgs;
use crate::commands::classes::ClassesArgs;
use crate::commands::fill::FillArgs;
use crate::commands::train::TrainArgs;
use crate::config;
use crate::documents::GenerateArgs;
use crate::error::report;
use crate::run::RunArgs;
use crate::usage_error::refuse;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Compressed memory in user space: zram and zsmalloc without the kernel.
///
/// Keeps pages compressed and densely packed in memory. `uzram fill` measures the memory that
/// compression saves for your own data; `uzram analyze` forecasts the savings of each setting.
/// `uzram serve` serves compressed memory as a disk; `uzram stat`, `attr` and `save` control the
/// disk. `uzram run` starts a program whose memory is compressed. `uzram classes` shows how objects
/// of each size are packed. `uzram train-dictionary` trains a dictionary and reports whether the
/// dictionary saves memory.
#[derive(Debug, Parser)]
#[command(name = "uzram", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Fill(FillArgs),
    Classes(ClassesArgs),
    Run(RunArgs),
    Restore(RestoreArgs),
    Attributes(AttributesArgs),
    TrainDictionary(TrainArgs),
    Analyze(AnalyzeArgs),
    Serve(ServeArgs),
    Generate(GenerateArgs),
    #[command(flatten)]
    Client(ClientCommand),
}

/// Print the device attributes that 'uzram fill' and 'uzram attr' accept
///
/// If the kernel's zram has the same attribute, uzram's attribute accepts the kernel's values and
/// returns the kernel's errors.
#[derive(Debug, Args)]
pub(crate) struct AttributesArgs {
    /// Print a JSON array instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses the command line of this process. For help, the version or a wrong command line, prints
/// the text and returns the exit code in `Err`.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    let given: Vec<OsString> = std::env::args_os().collect();
    if let Some(args) = run_alone(&given) {
        return Ok(Command::Run(args));
    }
    let refused =
        |error: clap::Error| refuse(error, &Cli::command(), given.get(1).map(OsString::as_os_str));
    let mut cli = Cli::command();
    let expanded = config::expanded(&mut cli, &given).map_err(|error| report(&error))?;
    let matches = cli.try_get_matches_from(expanded.as_ref().unwrap_or(&given)).map_err(refused)?;
    Cli::from_arg_matches(&matches).map(|cli| cli.command).map_err(refused)
}

/// Returns the arguments of `uzram run`, or `None` for a wrong command line or another command.
/// `uzram run` does not build the definitions of all commands, because that takes longer than its
/// own work.
fn run_alone(given: &[OsString]) -> Option<RunArgs> {
    let (_, rest) = given.split_first()?;
    if rest.first()? != "run" {
        return None;
    }
    let run = RunArgs::augment_args(clap::Command::new("run"));
    let matches = run.try_get_matches_from(rest).ok()?;
    RunArgs::from_arg_matches(&matches).ok()
}

pub(crate) fn cli() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage_error::told;

    fn command(args: &[&str]) -> Result<Command, String> {
        let cli = Cli::try_parse_from(["uzram"].iter().chain(args));
        cli.map(|cli| cli.command).map_err(told)
    }

    fn line(args: &[&str]) -> Result<FillArgs, String> {
        match command(&[&["fill"], args].concat())? {
            Command::Fill(args) => Ok(args),
            other => unreachable!("fill was asked for, not {other:?}"),
        }
    }

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_definition_of_run_alone_accepts_what_the_whole_one_accepts() {
        let run: &[&[&str]] = &[
            &["run", "--limit", "1G", "ls", "-l", "--help"],
            &["run", "--limit=50%", "--stats", "--", "-program", "--limit"],
            &["run", "true"],
            &["run"],
            &["run", "--help"],
            &["run", "-h"],
            &["run", "--version"],
            &["run", "--limit"],
            &["run", "--nosuch", "true"],
            &["fill", "a"],
            &["--help"],
            &[],
        ];
        for args in run {
            let given: Vec<OsString> = ["uzram"].iter().chain(*args).map(OsString::from).collect();
            let whole = match command(args) {
                Ok(Command::Run(args)) => Some(format!("{args:?}")),
                _ => None,
            };
            assert_eq!(run_alone(&given).map(|args| format!("{args:?}")), whole, "{args:?}");
        }
    }

    #[test]
    fn errors_are_one_line_that_names_the_thing() {
        for (args, named) in [
            (&[][..], "<PATH>"),
            (&["--algorithm", "nosuch", "a"], "lz4, lz4hc, zstd"),
            (&["--algorithm", "lzo", "a"], "lz4, lz4hc, zstd"),
            (&["--algorithm", "a\nb\u{1b}", "a"], "--algorithm"),
            (&["--level", "much", "a"], "--level"),
            (&["--threads", "0", "a"], "1 to 256"),
            (&["--threads", "257", "a"], "1 to 256"),
            (&["--mem-limit", "5X", "a"], "--mem-limit"),
            (&["--mem-limit", "99999999999T", "a"], "too large"),
            (&["--input-limit", "4095", "a"], "4096"),
            (&["--inputlimit", "4095", "a"], "--input-limit"),
            (&["--geometry", "linux", "a"], "kernel, native"),
            (&["--chain", "-1", "a"], "--chain"),
            (&["--rule", "best", "a"], "used-percent, least-waste"),
            (&["--compaction", "on", "a"], "auto, manual, off"),
            (&["--order", "0", "a"], "--order"),
        ] {
            let message = line(args).unwrap_err();
            assert!(message.contains(named), "{args:?}: {message}");
            assert!(!message.contains(char::is_control), "{args:?}: {message}");
        }
    }
}
