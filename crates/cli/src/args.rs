//! The command line, as typed values.

use crate::error::USAGE;
use crate::memparse;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use zcomp::{Codec, Params};

/// The most threads that can be asked for.
const THREADS_MAX: u16 = 256;

/// Compressed memory in user space: zram and zsmalloc without the kernel.
///
/// Memory is held compressed, page by page, and packed densely. `uzram fill` shows what that gives on
/// your own data.
#[derive(Debug, Parser)]
#[command(name = "uzram", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Fill(FillLine),
}

/// Store files in a compressed device, read them back, and report memory and speed
///
/// Reads every regular file at or under the paths as 4 KiB pages (the last page of a file is padded with
/// zeros), writes them to one compressed device in memory, reads all of it back, and compares byte for
/// byte. Nothing is written to disk. Symbolic links are followed only where a PATH is one.
#[derive(Debug, Args)]
#[command(after_help = "\
Sizes are bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB: 4096, 64K, 1GiB.

Exit codes:
  0    all is stored, and read back the same (files that can't be read are skipped)
  1    the memory limit was reached, or something did not read back the same
  2    wrong use
  130  interrupted

Examples:
  uzram fill /usr/lib
  uzram fill --algorithm zstd --level 3 --input-limit 2G --classes /usr/lib /usr/share
  uzram fill --json --mem-limit 512M dump.img")]
struct FillLine {
    /// Algorithm: lz4 or zstd
    #[arg(long, value_name = "NAME", default_value = "lz4", value_parser = zcomp::by_name)]
    algorithm: &'static dyn Codec,
    /// Level of the algorithm: of lz4 the acceleration (more is faster), of zstd the compression
    /// level (more is denser) [default: the algorithm's own]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    level: Option<i32>,
    /// Threads that write and read [default: one per processor, at most 16, fewer where memory is
    /// short]
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<u16>,
    /// Most bytes of compressed pages; 0 is no limit [default: 85% of the memory there is, or of the
    /// memory cgroup's limit]
    #[arg(long, value_name = "SIZE", value_parser = memparse::parse)]
    mem_limit: Option<u64>,
    /// Stop after so many bytes of input, cut down to whole pages [default: none]
    #[arg(long, value_name = "SIZE", value_parser = input_limit)]
    input_limit: Option<u64>,
    /// Add the table of size classes, as the kernel's `classes` file
    #[arg(long)]
    classes: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Files, and directories to be walked through
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Command {
    /// `uzram fill`
    Fill(FillArgs),
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
}

/// Whether the class table is part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassTable {
    Shown,
    Omitted,
}

/// Most bytes of pool pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemLimit {
    /// What fits the machine.
    Default,
    Bytes(u64),
    None,
}

/// `uzram fill`, checked.
#[derive(Debug)]
pub(crate) struct FillArgs {
    pub(crate) algorithm: &'static dyn Codec,
    pub(crate) params: Params,
    /// `None` is as many as fit the machine.
    pub(crate) threads: Option<usize>,
    pub(crate) mem_limit: MemLimit,
    /// Pages of input at most.
    pub(crate) input_pages: Option<u64>,
    pub(crate) class_table: ClassTable,
    pub(crate) form: Form,
    pub(crate) paths: Vec<PathBuf>,
}

fn threads(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(count @ 1..=THREADS_MAX) => Ok(count),
        _ => Err(format!("expected 1 to {THREADS_MAX}")),
    }
}

fn input_limit(text: &str) -> Result<u64, String> {
    match memparse::parse(text)? {
        0..4096 => Err("expected at least one page, 4096 bytes".to_owned()),
        bytes => Ok(bytes),
    }
}

impl From<FillLine> for FillArgs {
    fn from(line: FillLine) -> Self {
        FillArgs {
            algorithm: line.algorithm,
            params: Params { level: line.level },
            threads: line.threads.map(usize::from),
            mem_limit: match line.mem_limit {
                None => MemLimit::Default,
                Some(0) => MemLimit::None,
                Some(bytes) => MemLimit::Bytes(bytes),
            },
            input_pages: line.input_limit.map(|bytes| bytes / zram::BLOCK as u64),
            class_table: if line.classes { ClassTable::Shown } else { ClassTable::Omitted },
            form: if line.json { Form::Json } else { Form::Table },
            paths: line.paths,
        }
    }
}

/// The command line of this process. Help, the version and errors are printed here; the code to end with
/// comes back.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    match Cli::try_parse() {
        Ok(Cli { command: Subcommands::Fill(line) }) => Ok(Command::Fill(line.into())),
        Err(error) => Err(refuse(&error)),
    }
}

fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody is left to tell that help could not be written.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(USAGE)
        }
        _ => {
            eprintln!("uzram: {}", one_line(&error.render().to_string()));
            ExitCode::from(USAGE)
        }
    }
}

/// What clap says in paragraphs, without the usage, on one line.
fn one_line(text: &str) -> String {
    let told = text.split("\n\n").filter(|part| {
        let part = part.trim_start();
        !part.starts_with("Usage:") && !part.starts_with("For more information")
    });
    let lines = told.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let line = lines.collect::<Vec<_>>().join("; ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let line: String = line.chars().flat_map(plain).collect();
    format!("{line}; see 'uzram fill --help'")
}

/// A character as it may be printed.
fn plain(c: char) -> impl Iterator<Item = char> {
    let escape = c.is_control().then(|| c.escape_default());
    let kept = escape.is_none().then_some(c);
    escape.into_iter().flatten().chain(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn line(args: &[&str]) -> Result<FillArgs, String> {
        let args = ["uzram", "fill"].iter().chain(args);
        match Cli::try_parse_from(args) {
            Ok(Cli { command: Subcommands::Fill(line) }) => Ok(line.into()),
            Err(error) => Err(one_line(&error.render().to_string())),
        }
    }

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_become_typed_values() {
        let args = line(&["--level", "-3", "--algorithm", "zstd", "--json", "a", "b"]).unwrap();
        assert_eq!(args.algorithm.name(), "zstd");
        assert_eq!(args.params.level, Some(-3));
        assert_eq!((args.form, args.class_table), (Form::Json, ClassTable::Omitted));
        assert_eq!((args.mem_limit, args.input_pages), (MemLimit::Default, None));
        assert_eq!(args.paths.len(), 2);
        let args = line(&["--mem-limit=0", "--input-limit", "10000", "a"]).unwrap();
        assert_eq!((args.mem_limit, args.input_pages), (MemLimit::None, Some(2)));
    }

    #[test]
    fn errors_are_one_line_that_names_the_thing() {
        for (args, named) in [
            (&[][..], "<PATH>"),
            (&["--algorithm", "nosuch", "a"], "lz4, zstd"),
            (&["--algorithm", "lzo", "a"], "lz4, zstd"),
            (&["--algorithm", "a\nb\u{1b}", "a"], "--algorithm"),
            (&["--level", "much", "a"], "--level"),
            (&["--threads", "0", "a"], "1 to 256"),
            (&["--threads", "257", "a"], "1 to 256"),
            (&["--mem-limit", "5X", "a"], "--mem-limit"),
            (&["--mem-limit", "99999999999T", "a"], "too large"),
            (&["--input-limit", "4095", "a"], "4096"),
            (&["--inputlimit", "4095", "a"], "--input-limit"),
        ] {
            let message = line(args).unwrap_err();
            assert!(message.contains(named), "{args:?}: {message}");
            assert!(!message.contains(char::is_control), "{args:?}: {message}");
        }
    }
}
