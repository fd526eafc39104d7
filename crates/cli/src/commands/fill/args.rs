//! The command line of `uzram fill`.

use super::cold_options::ColdArgs;
use crate::commands::geometry::GeometryLine;
use crate::commands::policy::THREADS_MAX;
use crate::error::Error;
use crate::memory::MemLimit;
use crate::setting::{AttributeSetting, readable};
use crate::text::one_of;
use crate::values::{Names, block, level, named};
use clap::Args;
use measure::page::PAGE_SIZE;
use std::path::PathBuf;
use zcomp::Codec;
use zram::{Compaction, memparse};
use zsmalloc::Geometry;

/// Store files in a compressed device, read them back, and report memory and speed
///
/// Reads every regular file at or under the paths as 4 KiB pages. The last page of a file is padded
/// with zeros. Writes the pages to one compressed device in memory, reads them back, and compares
/// them with the files. Only --save and --backing write to disk. A symbolic link is followed only
/// if it is a PATH itself.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("geometry", |arg| arg.default_value("native")), after_help = "\
Sizes are bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB: 4096, 64K, 1GiB.

Exit codes:
  0    everything is stored, and read back the same (files that can't be read are skipped)
  1    a path does not exist or can't be used, the memory limit was reached, \
       or something did not read back the same
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
pub(crate) struct FillArgs {
    #[arg(long, value_name = "NAME", default_value = "lz4", value_parser = zcomp::by_name)]
    #[arg(help = format!("Algorithm: {}", one_of(zcomp::names())))]
    pub(super) algorithm: &'static dyn Codec,
    /// Level of the algorithm. A higher level of lz4 (its acceleration) is faster; a higher level
    /// of lz4hc or zstd compresses better [default: the algorithm's default level]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = level)]
    pub(super) level: Option<i32>,
    /// Number of threads that write and read [default: one per processor, but at most 16, and fewer
    /// if memory is short]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(super) threads: Option<u16>,
    /// Maximum memory of the pages that hold compressed data, including the free space in these
    /// pages. The device's tables and the memory of this command itself are not counted; --set
    /// total_limit=SIZE sets a limit that includes tables. A value of 0 means no limit. Otherwise,
    /// the minimum is 64K [default: 85% of the machine's memory, or of the memory cgroup's limit]
    #[arg(long, value_name = "SIZE", value_parser = MemLimit::parse)]
    pub(super) mem_limit: Option<MemLimit>,
    /// Stop after this number of bytes of input, rounded down to whole pages [default: none]
    #[arg(long, value_name = "SIZE", value_parser = input_limit)]
    pub(super) input_limit: Option<u64>,
    /// Block size in bytes: 4K, 8K, 16K, 32K or 64K. Larger blocks compress better, and are faster
    /// to write and read as a whole, but reading a single page of a large block takes longer
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = block)]
    pub(super) block: usize,
    #[command(flatten)]
    pub(super) cold: ColdArgs,
    #[command(flatten)]
    pub(super) geometry: GeometryLine,
    /// When to compact the device. Compaction moves objects together, so that pages become free
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = named(COMPACTION))]
    pub(super) compaction: Compaction,
    /// Set an attribute of the device before the device is created ('uzram attributes' lists the
    /// attributes); overrides other options; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(super) set: Vec<AttributeSetting>,
    /// Also show the value of an attribute after everything is stored; can be repeated
    #[arg(long, value_name = "NAME", value_parser = readable)]
    pub(super) show: Vec<&'static str>,
    /// Add the table of size classes in the format of the kernel's `classes` file
    #[arg(long)]
    pub(super) classes: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Files, and directories that are searched for files
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
}

/// The modes of compaction.
pub(super) const COMPACTION: Names<Compaction> = &[
    ("auto", "In the background, while it could free enough pages", Compaction::Auto),
    ("manual", "On demand; `fill` never requests it, so nothing is moved", Compaction::Manual),
    ("off", "Never", Compaction::Off),
];

fn setting(text: &str) -> Result<AttributeSetting, String> {
    AttributeSetting::parse(text, "follows from the files; bound them with --input-limit")
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

impl FillArgs {
    pub(super) fn geometry(&self) -> Result<Geometry, Error> {
        Ok(self.geometry.table((self.block / PAGE_SIZE).ilog2())?.geometry())
    }

    /// Returns the maximum number of pages of input.
    pub(super) fn input_pages(&self) -> Option<u64> {
        self.input_limit.map(|bytes| bytes / PAGE_SIZE as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: FillArgs,
    }

    fn parsed(args: &[&str]) -> FillArgs {
        Line::try_parse_from(["fill"].iter().chain(args)).unwrap().args
    }

    #[test]
    fn arguments_become_typed_values() {
        let args = parsed(&["--level", "-3", "--algorithm", "zstd", "--json", "a", "b"]);
        assert_eq!((args.algorithm.name(), args.level), ("zstd", Some(-3)));
        assert_eq!((args.json, args.classes, args.paths.len()), (true, false, 2));
        assert_eq!((args.mem_limit, args.input_pages()), (None, None));
        assert_eq!(args.geometry().unwrap(), Geometry::default());
        assert_eq!(args.compaction, Compaction::default());
        let args = parsed(&["--mem-limit=0", "--input-limit", "10000", "a"]);
        assert_eq!((args.mem_limit, args.input_pages()), (Some(MemLimit::None), Some(2)));
    }
}
