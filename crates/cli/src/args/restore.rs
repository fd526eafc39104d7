//! The command line of `uzram restore`.

use super::client::ControlArgs;
use crate::memory::MemLimit;
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use zram::Damage;

/// Restore a saved device, and report its contents
///
/// Reads a file that 'uzram fill --save', 'uzram save' or the attribute 'save' has written. Checks
/// the whole file, and restores the device in this command's own memory, which is freed at the end.
/// A truncated or damaged file is refused; the message contains the offset and the reason.
///
/// With --served, restores the device of a running server. This device must be empty and have no
/// connected client. The server reads the file on its own machine, with the rights of its own user.
#[derive(Debug, Args)]
#[command(mut_arg("control", |arg| arg.requires("served")))]
#[command(group = ArgGroup::new("here").args(["salvage", "output", "mem_limit"]).multiple(true))]
#[command(after_help = "\
Exit codes:
  0    everything is restored
  1    the file is refused, or some of it is lost
  2    wrong use
  130  interrupted

Examples:
  uzram restore lib.uzram
  uzram restore --salvage --output lib.img lib.uzram
  uzram restore --served lib.uzram")]
pub(crate) struct RestoreArgs {
    /// Keep the intact parts of a damaged file, and list the lost parts
    #[arg(long)]
    salvage: bool,
    /// Write the contents of the device to FILE as an image, with holes for zeros. An existing file
    /// is replaced when the new file is complete. If FILE is a block device, it is zeroed and
    /// written in place. A block device that is in use, or smaller than the disk, is refused
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Maximum memory of the pages that hold compressed data, including the free space in these
    /// pages. In addition, the device's tables can use a quarter of the limit. A value of 0 means
    /// no limit. Otherwise, the minimum is 64K [default: 85% of the machine's memory, or of the
    /// memory cgroup's limit]
    #[arg(long, value_name = "SIZE", value_parser = MemLimit::parse)]
    pub(crate) mem_limit: Option<MemLimit>,
    /// Restore the file to the device of a running server; the device must be empty
    #[arg(long, conflicts_with = "here")]
    pub(crate) served: bool,
    #[command(flatten)]
    pub(crate) server: ControlArgs,
    /// Print one JSON object instead of a line
    #[arg(long)]
    pub(crate) json: bool,
    /// The saved file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

impl RestoreArgs {
    pub(crate) fn damage(&self) -> Damage {
        if self.salvage { Damage::Salvage } else { Damage::Refuse }
    }
}
