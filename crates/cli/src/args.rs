//! The command line, as typed values.

use crate::attributes::{self, Setting};
use crate::cold::ColdArgs;
use crate::error::Error;
use crate::geometry::GeometryLine;
use crate::refusal::refuse;
use crate::serve_args::{AskArgs, AttrLine, CompactLine, IdleLine, ServeArgs, ServeLine, StatLine};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use zcomp::{Codec, Params};
use zram::{Damage, memparse};
use zsmalloc::Geometry;

/// The most threads that can be asked for.
const THREADS_MAX: u16 = 256;

/// The largest dictionary: an eighth of what is read at most.
const DICTIONARY_BYTES_MAX: usize = 8 << 20;

/// Compressed memory in user space: zram and zsmalloc without the kernel.
///
/// Memory is held compressed, page by page, and packed densely. `uzram fill` shows what that gives on
/// your own data, `uzram serve` lets others use it as a disk, `uzram classes` shows how objects of each size are
/// packed, `uzram train-dictionary` whether a dictionary helps.
#[derive(Debug, Parser)]
#[command(name = "uzram", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Fill(FillLine),
    Classes(ClassesLine),
    Restore(RestoreLine),
    Attributes(AttributesLine),
    TrainDictionary(TrainLine),
    Serve(ServeLine),
    Attr(AttrLine),
    Stat(StatLine),
    Compact(CompactLine),
    Idle(IdleLine),
}

/// Store files in a compressed device, read them back, and report memory and speed
///
/// Reads every regular file at or under the paths as 4 KiB pages (the last page of a file is padded with
/// zeros), writes them to one compressed device in memory, reads all of it back, and compares byte for
/// byte. Nothing is written to disk but what --save and --backing name. Symbolic links are followed only where a PATH is one.
#[derive(Debug, Args)]
#[command(mut_arg("geometry", |arg| arg.default_value("native")), after_help = "\
Sizes are bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB: 4096, 64K, 1GiB.

Exit codes:
  0    all is stored, and read back the same (files that can't be read are skipped)
  1    the memory limit was reached, or something did not read back the same
  2    wrong use
  130  interrupted

Examples:
  uzram fill /usr/lib
  uzram fill --algorithm zstd --level 3 --input-limit 2G --classes /usr/lib /usr/share
  uzram fill --algorithm zstd --block 16K /usr/lib
  uzram fill --geometry kernel --chain 16 --compaction off /usr/lib
  uzram fill --json --mem-limit 512M dump.img
  uzram fill --save lib.uzram --backing cold.bin /usr/lib
  uzram fill --set algorithm_params=dict=lib.dict --show io_stat --show compaction_stat /usr/lib")]
struct FillLine {
    /// Algorithm: lz4, lz4hc or zstd
    #[arg(long, value_name = "NAME", default_value = "lz4", value_parser = zcomp::by_name)]
    algorithm: &'static dyn Codec,
    /// Level of the algorithm: of lz4 the acceleration (more is faster), of the others the
    /// compression level (more is denser) [default: the algorithm's own]
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
    /// Bytes compressed as one: 4K, 8K, 16K, 32K or 64K; the more, the smaller and the faster to write and
    /// read whole, and the slower to read a page of
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = block)]
    block: usize,
    #[command(flatten)]
    cold: ColdArgs,
    #[command(flatten)]
    geometry: GeometryLine,
    /// When objects are moved together so that pages become free
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    compaction: CompactionMode,
    /// Set an attribute of the device before it is made, as 'uzram attributes' lists them; goes before
    /// what other options say; can be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = attributes::setting)]
    set: Vec<Setting>,
    /// Add what an attribute reads as when all is stored; can be given again
    #[arg(long, value_name = "NAME", value_parser = attributes::readable)]
    show: Vec<&'static str>,
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

/// Print a table of size classes: how objects of each size share zspages
///
/// By default the kernel's table of today, as that is what others are compared with; --geometry native is
/// what `uzram fill` uses. Nothing is stored.
#[derive(Debug, Args)]
#[command(mut_arg("geometry", |arg| arg.default_value("kernel")), after_help = "\
Columns:
  class             number of the class, as the kernel counts; merged sizes have the largest one's
  size              bytes from one object to the next
  pages_per_zspage  pages that are taken together
  objs_per_zspage   objects that fit them
  waste             bytes of a full zspage that no object covers
  merged            sizes that share the class, - if it has only one

The last line: how many classes there are, the largest size of which a zspage holds more than
one object (watermark), and the length from which data is stored whole (huge).

Examples:
  uzram classes
  uzram classes --chain 16 --rule used-percent
  uzram classes --order 2 --json
  uzram classes --geometry native")]
struct ClassesLine {
    #[command(flatten)]
    geometry: GeometryLine,
    /// Add the classes above a page, for blocks of 4096 << K bytes, K from 0 to 4; zspages of those are
    /// counted in blocks, so the longest chain is 256 >> K
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = order, allow_negative_numbers = true)]
    order: u32,
    /// Print one JSON object instead of a table; watermark and huge size are the order's
    #[arg(long)]
    json: bool,
}

/// Make a dictionary for compression from files, and report what it gives
///
/// Reads blocks of every regular file at or under the paths (up to 64 MiB of them, spread evenly; blocks of
/// one repeated word are left out), trains a dictionary with seven of eight, and tries it with every
/// algorithm on the others: often enough it does not pay. Then it is written as a whole; a file that is
/// there is replaced.
///
/// The dictionary is a zstd one, with its tables. lz4 and lz4hc take all of it as content, of which they
/// reach the last 64 KiB. It serves only those blocks that are like the files.
#[derive(Debug, Args)]
#[command(after_help = "\
Sizes are bytes, decimal or 0x, with K or M behind them for KiB or MiB.

Exit codes:
  0    the dictionary is written, whether it pays or not
  1    it could not be trained or written
  2    wrong use, or too little input
  130  interrupted

Examples:
  uzram train-dictionary /usr/lib -o lib.dict
  uzram train-dictionary --size 16K --block 16K --json dumps/ -o dumps.dict")]
struct TrainLine {
    /// Where the dictionary goes
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Most bytes of the dictionary, 256 to 8M
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = dictionary_size)]
    size: usize,
    /// Bytes of the blocks it is for: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = block)]
    block: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Files, and directories to be walked through
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Restore a device that was saved, and report what it holds
///
/// Reads a file that 'uzram fill --save' or a device's attribute 'save' wrote, checks all of it, and makes the
/// device in memory. A file that is cut or damaged is refused, with the place and the reason.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0    all is restored
  1    the file is refused, or some of it is lost
  2    wrong use

Examples:
  uzram restore lib.uzram
  uzram restore --salvage --output lib.img lib.uzram")]
struct RestoreLine {
    /// Keep what is intact of a damaged file, and list what is lost
    #[arg(long)]
    salvage: bool,
    /// Write what the device reads as to FILE, zeros left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
    /// The saved file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Print the attributes of a device: what 'uzram fill' can set and show
///
/// Names, words and errors are those of the kernel's zram, as far as it has them.
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
    /// `uzram attr` and others that ask a server
    Ask(AskArgs),
}

/// When the pool is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CompactionMode {
    /// In the background, while enough could be freed
    Auto,
    /// On demand; as `fill` demands none, nothing is moved
    Manual,
    /// Never
    Off,
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
    /// Bytes of a block.
    pub(crate) block: usize,
    pub(crate) geometry: Geometry,
    pub(crate) compaction: CompactionMode,
    pub(crate) cold: ColdArgs,
    pub(crate) set: Vec<Setting>,
    /// Names of attributes.
    pub(crate) show: Vec<&'static str>,
    pub(crate) class_table: ClassTable,
    pub(crate) form: Form,
    pub(crate) paths: Vec<PathBuf>,
}

/// `uzram classes`, checked.
#[derive(Debug)]
pub(crate) struct ClassesArgs {
    pub(crate) table: zsmalloc::ClassTable,
    /// The table's.
    pub(crate) order: u32,
    pub(crate) form: Form,
}

/// `uzram restore`, checked.
#[derive(Debug)]
pub(crate) struct RestoreArgs {
    pub(crate) file: PathBuf,
    pub(crate) output: Option<PathBuf>,
    pub(crate) damage: Damage,
    pub(crate) form: Form,
}

/// `uzram train-dictionary`, checked.
#[derive(Debug)]
pub(crate) struct TrainArgs {
    pub(crate) output: PathBuf,
    /// Most bytes of the dictionary.
    pub(crate) size: usize,
    /// Bytes of a block, a power of two of pages.
    pub(crate) block: usize,
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

fn dictionary_size(text: &str) -> Result<usize, String> {
    match memparse::parse(text)? as usize {
        bytes @ zcomp::DICTIONARY_BYTES_MIN..=DICTIONARY_BYTES_MAX => Ok(bytes),
        _ => Err("expected 256 bytes to 8M".to_owned()),
    }
}

pub(crate) fn block(text: &str) -> Result<usize, String> {
    match memparse::parse(text)? {
        bytes @ (4096 | 8192 | 16_384 | 32_768 | 65_536) => Ok(bytes as usize),
        _ => Err("expected 4K, 8K, 16K, 32K or 64K".to_owned()),
    }
}

fn order(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected 0 to {}", zsmalloc::ORDER_MAX))
}

impl From<CompactionMode> for zram::Compaction {
    fn from(mode: CompactionMode) -> Self {
        match mode {
            CompactionMode::Auto => zram::Compaction::Auto,
            CompactionMode::Manual => zram::Compaction::Manual,
            CompactionMode::Off => zram::Compaction::Off,
        }
    }
}

impl From<zram::Compaction> for CompactionMode {
    fn from(compaction: zram::Compaction) -> Self {
        match compaction {
            zram::Compaction::Auto => CompactionMode::Auto,
            zram::Compaction::Manual => CompactionMode::Manual,
            zram::Compaction::Off => CompactionMode::Off,
        }
    }
}

impl MemLimit {
    pub(crate) fn new(asked: Option<u64>) -> Self {
        match asked {
            None => MemLimit::Default,
            Some(0) => MemLimit::None,
            Some(bytes) => MemLimit::Bytes(bytes),
        }
    }
}

impl Form {
    pub(crate) fn new(is_json: bool) -> Self {
        if is_json { Form::Json } else { Form::Table }
    }
}

impl TryFrom<FillLine> for FillArgs {
    type Error = Error;

    fn try_from(line: FillLine) -> Result<Self, Error> {
        Ok(FillArgs {
            algorithm: line.algorithm,
            params: Params { level: line.level, ..Params::default() },
            threads: line.threads.map(usize::from),
            mem_limit: MemLimit::new(line.mem_limit),
            input_pages: line.input_limit.map(|bytes| bytes / zram::BLOCK as u64),
            block: line.block,
            geometry: line.geometry.table((line.block / zram::BLOCK).ilog2())?.geometry(),
            compaction: line.compaction,
            cold: line.cold,
            set: line.set,
            show: line.show,
            class_table: if line.classes { ClassTable::Shown } else { ClassTable::Omitted },
            form: Form::new(line.json),
            paths: line.paths,
        })
    }
}

impl TryFrom<ClassesLine> for ClassesArgs {
    type Error = Error;

    fn try_from(line: ClassesLine) -> Result<Self, Error> {
        let table = line.geometry.table(line.order)?;
        Ok(ClassesArgs { table, order: line.order, form: Form::new(line.json) })
    }
}

impl From<TrainLine> for TrainArgs {
    fn from(line: TrainLine) -> Self {
        let TrainLine { output, size, block, json, paths } = line;
        TrainArgs { output, size, block, form: Form::new(json), paths }
    }
}

impl From<RestoreLine> for RestoreArgs {
    fn from(line: RestoreLine) -> Self {
        let RestoreLine { salvage, output, json, file } = line;
        let damage = if salvage { Damage::Salvage } else { Damage::Refuse };
        RestoreArgs { file, output, damage, form: Form::new(json) }
    }
}

impl TryFrom<Cli> for Command {
    type Error = Error;

    fn try_from(cli: Cli) -> Result<Self, Error> {
        Ok(match cli.command {
            Subcommands::Fill(line) => Command::Fill(line.try_into()?),
            Subcommands::Classes(line) => Command::Classes(line.try_into()?),
            Subcommands::Restore(line) => Command::Restore(line.into()),
            Subcommands::Attributes(line) => Command::Attributes(Form::new(line.json)),
            Subcommands::TrainDictionary(line) => Command::TrainDictionary(line.into()),
            Subcommands::Serve(line) => Command::Serve(line.into()),
            Subcommands::Attr(line) => Command::Ask(line.into()),
            Subcommands::Stat(line) => Command::Ask(line.into()),
            Subcommands::Compact(line) => Command::Ask(line.into()),
            Subcommands::Idle(line) => Command::Ask(line.into()),
        })
    }
}

/// The command line of this process. Help, the version and errors are printed here; the code to end with
/// comes back.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    match Cli::try_parse() {
        Ok(cli) => cli.try_into().map_err(|error: Error| error.tell()),
        Err(error) => Err(refuse(&error, &Cli::command(), std::env::args_os().nth(1).as_deref())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::one_line;

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
    fn arguments_become_typed_values() {
        let args = line(&["--level", "-3", "--algorithm", "zstd", "--json", "a", "b"]).unwrap();
        assert_eq!(args.algorithm.name(), "zstd");
        assert_eq!(args.params.level, Some(-3));
        assert_eq!((args.form, args.class_table), (Form::Json, ClassTable::Omitted));
        assert_eq!((args.mem_limit, args.input_pages), (MemLimit::Default, None));
        assert_eq!(args.paths.len(), 2);
        assert_eq!(args.geometry, Geometry::default());
        assert_eq!(zram::Compaction::from(args.compaction), zram::Compaction::default());
        let args = line(&["--mem-limit=0", "--input-limit", "10000", "a"]).unwrap();
        assert_eq!((args.mem_limit, args.input_pages), (MemLimit::None, Some(2)));
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

    #[test]
    fn the_kernels_table_is_the_default_one() {
        let classes = |args: &[&str]| match command(&[&["classes"], args].concat()).unwrap() {
            Command::Classes(args) => args,
            other => unreachable!("classes were asked for, not {other:?}"),
        };
        let args = classes(&[]);
        assert_eq!(args.table.geometry(), Geometry::Kernel(zsmalloc::KernelGeometry::default()));
        assert_eq!((args.order, args.form), (0, Form::Table));
        let args = classes(&["--geometry", "native", "--order=3", "--json"]);
        assert_eq!(args.table.geometry(), Geometry::Native { order: 3 });
        assert_eq!((args.order, args.form), (3, Form::Json));
    }
}
