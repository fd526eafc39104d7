//! The command line of `uzram restore`.

use super::client::ControlArgs;
use super::{ClientArgs, Command, Form};
use crate::error::Error;
use clap::{ArgGroup, Args};
use measure::memory::MemLimit;
use std::path::PathBuf;
use zram::{Damage, JobKind, memparse};

/// Restore a device that was saved, and report what it holds
///
/// Reads a file that 'uzram fill --save', 'uzram save' or the attribute 'save' wrote, checks all of
/// it, and builds the device in memory for as long as this command runs. A truncated or damaged
/// file is refused, with the offset and the reason.
///
/// With --served, restores the device of a running server, which must be empty and have no client
/// connected. The server reads the file, as its own user and on its own machine.
#[derive(Debug, Args)]
#[command(mut_arg("control", |arg| arg.requires("served")), group = ArgGroup::new("here").args(["salvage", "output", "mem_limit"]).multiple(true), after_help = "\
Exit codes:
  0    everything is restored
  1    the file is refused, or some of it is lost
  2    wrong use
  130  interrupted

Examples:
  uzram restore lib.uzram
  uzram restore --salvage --output lib.img lib.uzram
  uzram restore --served lib.uzram")]
pub(super) struct RestoreLine {
    /// Keep what is intact of a damaged file, and list what is lost
    #[arg(long)]
    salvage: bool,
    /// Write the contents of the device to FILE as an image, with holes for zeros; an existing file
    /// is replaced when the new one is complete, a block device is written in place
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Limit of compressed pages in bytes: all pages that hold compressed data, with the free parts
    /// in them; tables may take a quarter as much on top. 0 is no limit [default: 85% of the
    /// machine's memory, or of the memory cgroup's limit]
    #[arg(long, value_name = "SIZE", value_parser = memparse::parse)]
    mem_limit: Option<u64>,
    /// Restore to the device that is served, which must be empty
    #[arg(long, conflicts_with = "here")]
    served: bool,
    #[command(flatten)]
    server: ControlArgs,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
    /// The saved file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// `uzram restore`, checked.
#[derive(Debug)]
pub(crate) struct RestoreArgs {
    pub(crate) file: PathBuf,
    pub(crate) output: Option<PathBuf>,
    pub(crate) damage: Damage,
    pub(crate) mem_limit: MemLimit,
    pub(crate) form: Form,
}

impl TryFrom<RestoreLine> for Command {
    type Error = Error;

    fn try_from(line: RestoreLine) -> Result<Self, Error> {
        let RestoreLine { salvage, output, mem_limit, served, server, json, file } = line;
        if served {
            return ClientArgs::on_file(server, JobKind::Restore, &file, json).map(Command::Client);
        }
        let damage = if salvage { Damage::Salvage } else { Damage::Refuse };
        let (mem_limit, form) = (MemLimit::new(mem_limit), Form::new(json));
        Ok(Command::Restore(RestoreArgs { file, output, damage, mem_limit, form }))
    }
}
