//! The command line of `uzram train-dictionary`.

use crate::commands::policy::DICTIONARY_BYTES_MAX;
use crate::values::block;
use clap::Args;
use std::path::PathBuf;
use zram::memparse;

/// Train a compression dictionary with files, and report what it saves
///
/// Reads blocks of every regular file at or under the paths (at most 64 MiB, spread evenly, without
/// same-filled blocks). Trains a dictionary with seven of every eight blocks, and tests the
/// dictionary with every algorithm on the remaining blocks. Often a dictionary does not pay,
/// because it uses more memory than it saves. So the report shows the memory of a device with all
/// the files, with and without the dictionary. At the end the command writes the dictionary; an
/// existing file is replaced when the new one is complete.
///
/// The dictionary has zstd's format, with zstd's entropy tables. The algorithms lz4 and lz4hc use
/// only the last 64 KiB of the dictionary. A dictionary helps only with blocks that resemble the
/// files.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Sizes are bytes, decimal or 0x, with K or M behind them for KiB or MiB.

Exit codes:
  0    the dictionary is written, whether it pays or not
  1    it could not be trained or written: a path does not exist, or there is too little input
  2    wrong use
  130  interrupted

Examples:
  uzram train-dictionary /usr/lib -o lib.dict
  uzram train-dictionary --size 16K --block 16K --json dumps/ -o dumps.dict")]
pub(crate) struct TrainArgs {
    /// File for the dictionary
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Largest size of the dictionary in bytes, 256 to 8M
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = dictionary_size)]
    pub(super) size: usize,
    /// Block size for which the dictionary is made: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = block)]
    pub(super) block: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Files, and directories that are searched for files
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
}

fn dictionary_size(text: &str) -> Result<usize, String> {
    match memparse::parse(text)? as usize {
        bytes @ zcomp::DICTIONARY_BYTES_MIN..=DICTIONARY_BYTES_MAX => Ok(bytes),
        _ => Err("expected 256 bytes to 8M".to_owned()),
    }
}
