//! The command line of `uzram analyze`.

use super::candidate::Kind;
use crate::commands::policy::SAMPLE_MIN;
use crate::values::{block, whole_number};
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::time::Duration;
use zram::memparse;

/// Forecast the memory that files or a running program need when compressed
///
/// Takes a sample of pages, spread evenly over the data. The data are the regular files at or under
/// the paths, or the resident private anonymous memory of a process (mostly its heap). Stores the
/// sample on real devices, one for each algorithm, level and block size, with and without a
/// dictionary. Reads the sample back. For each of these devices, prints the forecast memory for all
/// data, the error of this forecast, and the processor time to store and to read a page. Recommends
/// one of the devices. A device that takes twice the time of another device is recommended only if
/// it saves a tenth of the memory.
///
/// A dictionary is trained with a quarter of the sample, but at most 8 MiB, and tested on the other
/// pages of the sample. For a process no dictionary is recommended, because dictionaries are
/// trained with files. A process continues to run while its memory is read. The command writes no
/// file, except with --parquet.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("input").args(["paths", "process"]).required(true))]
#[command(after_help = "\
Sizes are bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB: 4096, 64K, 1GiB.

Exit codes:
  0    the report is printed
  1    a path or a process can't be read; or, below the report, most of the sample could not be, or
       no rows could be appended
  2    wrong use
  130  interrupted

Examples:
  uzram analyze /usr/lib
  uzram analyze --pid 1234
  uzram analyze --try lz4 --try zstd:1 --try zstd:9 --block 4K --block 16K dump.img
  uzram analyze --json --parquet fleet.parquet --pid 1234")]
pub(crate) struct AnalyzeArgs {
    /// Process whose memory is sampled; only the process's user, or root, can read this memory
    #[arg(long = "pid", value_name = "PID", value_parser = pid)]
    pub(super) process: Option<u32>,
    /// Use only pages that the process has not accessed for this number of seconds; needs root and
    /// a kernel that tracks idle pages
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    #[arg(requires = "process", conflicts_with = "paths")]
    pub(super) idle: Option<Duration>,
    /// Maximum size of the sample. If the data are smaller, the sample contains all data, and the
    /// forecast has no sampling error
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = sample)]
    pub(super) sample: u64,
    /// Algorithm to try, with an optional level; can be repeated [default: lz4, lz4hc, zstd:-1,
    /// zstd:1, zstd:3]
    #[arg(long = "try", value_name = "NAME[:LEVEL]", value_parser = Kind::parse)]
    #[arg(default_values = ["lz4", "lz4hc", "zstd:-1", "zstd:1", "zstd:3"])]
    #[arg(hide_default_value = true)]
    pub(super) candidates: Vec<Kind>,
    /// Block size to try: 4K, 8K, 16K, 32K or 64K; can be repeated [default: 4K, 16K, 64K]
    #[arg(long = "block", value_name = "SIZE", value_parser = block)]
    #[arg(default_values = ["4K", "16K", "64K"], hide_default_value = true)]
    pub(super) blocks: Vec<usize>,
    /// Seed of the sample; another number draws another sample
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Append a row for each line of the table to a Parquet file, which is created if it does not
    /// exist; useful to collect the results of many machines
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "FILE")]
    pub(super) parquet: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Files, and directories that are searched for files
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
}

fn pid(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected the number of a process".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    whole_number(text, 1..=1 << 20).map(Duration::from_secs)
}

fn sample(text: &str) -> Result<u64, String> {
    match memparse::parse(text)? {
        0..SAMPLE_MIN => Err("expected at least 1M".to_owned()),
        bytes => Ok(bytes),
    }
}
