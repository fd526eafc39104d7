//! The command line, as typed values.

mod client;
mod restore;
mod server;

pub(crate) use client::{ClientArgs, ClientRequest};
pub(crate) use restore::RestoreArgs;
pub(crate) use server::ServeArgs;

use crate::error::{Error, report};
use crate::usage_error::refuse;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use client::{
    Ask, AttrArgs, CancelArgs, CompactArgs, IdleArgs, RecompressArgs, SaveArgs, StatArgs,
    WritebackArgs,
};
use measure::arguments::whole_number;
use measure::classes::ClassesArgs;
use measure::fill::FillArgs;
use measure::train::TrainArgs;
use restore::RestoreLine;
use std::process::ExitCode;

/// Compressed memory in user space: zram and zsmalloc without the kernel.
///
/// Keeps pages compressed in memory, packed densely. `uzram fill` measures what that saves on your
/// own data; `uzram serve` serves such a device as a disk, which `uzram stat`, `attr`, `save` and
/// others control; `uzram classes` shows how objects of each size are packed; `uzram
/// train-dictionary` shows whether a dictionary helps.
#[derive(Debug, Parser)]
#[command(name = "uzram", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Fill(FillArgs),
    Classes(ClassesArgs),
    Restore(RestoreLine),
    Attributes(AttributesLine),
    TrainDictionary(TrainArgs),
    Serve(ServeArgs),
    /// Read and write attributes of a device that is served
    ///
    /// Without a name, prints every attribute that can be read, except lists of all slots or
    /// classes; with a name, prints that one; with a value, sets it. 'uzram attributes' describes
    /// them.
    Attr(Ask<AttrArgs>),
    /// Show the size and memory of the device that is served, as zramctl does
    Stat(Ask<StatArgs>),
    /// Move objects of the device together, so that pages become free
    Compact(Ask<CompactArgs>),
    /// Mark slots of the device idle: all, or those not accessed for long
    Idle(Ask<IdleArgs>),
    /// Compress data of the device again, with an algorithm that makes them smaller
    ///
    /// Needs 'uzram serve --set recomp_algorithm=algo=NAME'. Clients are served during the job;
    /// data that they change are left as they are. The job goes on when this command is ended:
    /// 'uzram cancel' ends it.
    Recompress(Ask<RecompressArgs>),
    /// Write data of the device back to its backing store, so that they leave memory
    ///
    /// Needs 'uzram serve --backing FILE'. Clients are served during the job; data that they access
    /// stay in memory. The job goes on when this command is ended: 'uzram cancel' ends it.
    Writeback(Ask<WritebackArgs>),
    /// Save the device that is served to a file
    ///
    /// Each page is saved as it is at some moment during the save; pages that no client writes
    /// during it are saved exactly. An existing file is replaced when the new one is complete. The
    /// server writes the file, as its own user and on its own machine. The save goes on when this
    /// command is ended: 'uzram cancel' ends it.
    Save(Ask<SaveArgs>),
    /// End the job that is under way: a save, restore, recompress or writeback
    ///
    /// What was recompressed or written back by then stays so. A cancelled save leaves no file, a
    /// cancelled restore leaves an empty disk.
    Cancel(Ask<CancelArgs>),
}

/// Print the attributes of a device that 'uzram fill' and 'uzram attr' take
///
/// Names, values and errors are those of the kernel's zram where it has them.
#[derive(Debug, Args)]
struct AttributesLine {
    /// Print a JSON array instead of a table
    #[arg(long)]
    json: bool,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Command {
    /// `uzram fill`
    Fill(FillArgs),
    /// `uzram classes`
    Classes(ClassesArgs),
    /// `uzram restore`
    Restore(RestoreArgs),
    /// `uzram attributes`
    Attributes(Form),
    /// `uzram train-dictionary`
    TrainDictionary(TrainArgs),
    /// `uzram serve`
    Serve(ServeArgs),
    /// `uzram attr` and other clients of a server
    Client(ClientArgs),
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
}

pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    whole_number(text, 0, u64::MAX)
}

impl Form {
    pub(crate) fn new(is_json: bool) -> Self {
        if is_json { Form::Json } else { Form::Table }
    }
}

impl TryFrom<Cli> for Command {
    type Error = Error;

    fn try_from(cli: Cli) -> Result<Self, Error> {
        Ok(match cli.command {
            Subcommands::Fill(line) => Command::Fill(line),
            Subcommands::Classes(line) => Command::Classes(line),
            Subcommands::Restore(line) => line.try_into()?,
            Subcommands::Attributes(line) => Command::Attributes(Form::new(line.json)),
            Subcommands::TrainDictionary(line) => Command::TrainDictionary(line),
            Subcommands::Serve(line) => Command::Serve(line),
            Subcommands::Attr(line) => Command::Client(line.into()),
            Subcommands::Stat(line) => Command::Client(line.into()),
            Subcommands::Compact(line) => Command::Client(line.into()),
            Subcommands::Cancel(line) => Command::Client(line.into()),
            Subcommands::Idle(line) => Command::Client(line.into()),
            Subcommands::Recompress(line) => Command::Client(line.into()),
            Subcommands::Writeback(line) => Command::Client(line.into()),
            Subcommands::Save(line) => Command::Client(line.try_into()?),
        })
    }
}

/// The command line of this process. Help, the version and errors are printed here; the code to end
/// with comes back.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    match Cli::try_parse() {
        Ok(cli) => cli.try_into().map_err(|error| report(&error)),
        Err(error) => Err(refuse(&error, &Cli::command(), std::env::args_os().nth(1).as_deref())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage_error::one_line;

    fn command(args: &[&str]) -> Result<Command, String> {
        let cli = Cli::try_parse_from(["uzram"].iter().chain(args));
        let cli = cli.map_err(|error| one_line(&error.render().to_string()))?;
        Command::try_from(cli).map_err(|error| error.to_string())
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
