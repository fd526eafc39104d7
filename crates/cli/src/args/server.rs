//! The command line of `uzram serve`.

use ::serve::Address;
use ::serve::nbd::{Mode, Options};
use clap::Args;
use measure::arguments::{block, level};
use measure::attributes::AttributeSetting;
use measure::memory::MemLimit;
use measure::text::one_of;
use std::path::PathBuf;
use zcomp::Codec;
use zram::{Damage, memparse};

/// The most connections that can be asked for.
const CONNECTIONS_MAX: u16 = 1024;

/// Serve a compressed device as a disk over NBD
///
/// The disk lives in memory, compressed, and is gone when this ends, unless --save-on-exit or
/// 'uzram save' keeps it. It needs no root and no other server. Clients connect over a Unix socket
/// that only this user may use, or over TCP. NBD has no authentication of its own: whoever reaches
/// a TCP port has the disk, which on loopback is every user of this machine.
///
/// Of a disk that is used as swap, or mounted for writing, on the machine that serves it: the
/// kernel may wait for this process to store what it wants to free. Its buffers are reserved
/// beforehand and it asks the kernel for memory without waiting for its own disk
/// (PR_SET_IO_FLUSHER, as root); leave it memory all the same, by --mem-limit.
#[derive(Debug, Args)]
#[command(after_help = "\
Sizes are bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB: 4096, 64K, 1GiB.

Exit codes:
  0    ended by SIGTERM, SIGINT, SIGQUIT or SIGHUP, and saved if that was asked for
  1    it could not start or go on; or it is saved elsewhere or not whole, as is said; or a second signal gave that up
  2    wrong use

Examples:
  uzram serve --size 4G
  uzram serve --size 16G --algorithm zstd --mem-limit 4G --nbd unix:/run/disk.sock
  uzram serve --size 16G --algorithm zstd --block 32K
  uzram serve --size 1G --nbd tcp:10809 --export scratch
  uzram serve --size 16G --save-on-exit disk.uzram
  uzram serve --restore disk.uzram --save-on-exit disk.uzram
  uzram serve --size 64G --mem-limit 4G --backing /var/tmp/cold.bin")]
pub(crate) struct ServeArgs {
    /// Bytes of the disk, rounded up to whole blocks [default: as large as what is restored]
    #[arg(long, value_name = "SIZE", value_parser = memparse::parse, required_unless_present = "restore")]
    pub(crate) size: Option<u64>,
    /// Begin with what a saved file holds; one that is damaged is refused, and nothing is served
    #[arg(long, value_name = "FILE")]
    pub(crate) restore: Option<PathBuf>,
    /// Begin with what is intact of a saved file that is damaged or lacks something, and tell what
    /// is lost
    #[arg(long, requires = "restore")]
    salvage: bool,
    /// Save the disk to FILE when SIGTERM, SIGINT, SIGQUIT or SIGHUP comes and all clients are
    /// gone; a file that is there is replaced when the new one is whole; takes as long as it takes
    /// to write that, and a second SIGTERM, SIGINT or SIGQUIT gives it up. Where FILE can't be
    /// written, or came or was changed since the start: FILE.1, then $XDG_STATE_HOME/uzram (or
    /// ~/.local/state/uzram); where that can't be either, it stays, tries again, and ends when
    /// 'uzram save' has saved it elsewhere, with exit code 1 as it is not in FILE. Only one server
    /// may have FILE: .FILE.save-on-exit lies beside it meanwhile
    #[arg(long, value_name = "FILE")]
    pub(crate) save_on_exit: Option<PathBuf>,
    /// Where 'uzram writeback' brings what is to leave memory: a file that is not there yet, which
    /// has no name ('ls' does not show it) while it takes disk space, and of which nothing stays;
    /// or a block device, whose contents are lost
    #[arg(long, value_name = "FILE")]
    pub(crate) backing: Option<PathBuf>,
    #[arg(long, value_name = "NAME", value_parser = zcomp::by_name)]
    #[arg(help = format!(
        "Algorithm: {} [default: lz4, or that of what is restored]",
        one_of(zcomp::names())
    ))]
    pub(crate) algorithm: Option<&'static dyn Codec>,
    /// Level of the algorithm [default: the algorithm's own]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = level)]
    pub(crate) level: Option<i32>,
    /// Bytes compressed as one where clients write them as one: 4K, 8K, 16K, 32K or 64K [default:
    /// 4K, or that of what is restored]
    #[arg(long, value_name = "SIZE", value_parser = block)]
    pub(crate) block: Option<usize>,
    /// Most bytes of compressed pages: all pages that hold compressed data, the free parts in them
    /// included; what was written back or is one repeated word is not in them. Past it writes get
    /// 'no space left', and so they do when tables take a quarter as much beside them (--set
    /// total_limit=SIZE bounds pages, tables and codecs' buffers together instead). What
    /// connections take is not counted. 0 is no limit [default: 85% of the memory there is, or of
    /// the memory cgroup's limit]
    #[arg(long, value_name = "SIZE", value_parser = memparse::parse)]
    mem_limit: Option<u64>,
    /// Set an attribute of the device before it is made, as 'uzram attributes' lists them; goes
    /// before what other options say; can be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<AttributeSetting>,
    /// Where clients connect: unix:PATH, tcp:HOST:PORT, tcp:PORT or tcp, which is loopback, open to
    /// every user of this machine [default: nbd.sock in $XDG_RUNTIME_DIR/uzram, or else /run/uzram
    /// or /tmp/uzram-UID]
    #[arg(long, value_name = "ADDRESS", value_parser = Address::parse)]
    pub(crate) nbd: Option<Address>,
    /// Name of the disk; clients that ask for no name get it too
    #[arg(long, value_name = "NAME", default_value = "", value_parser = export_name)]
    pub(crate) export: String,
    /// Let clients only read
    #[arg(long)]
    read_only: bool,
    /// Connections at a time; more are refused
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=i64::from(CONNECTIONS_MAX)))]
    connections: u16,
    /// Threads for each connection [default: one per processor, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// Mount the device there too: the file disk, its attributes in attr, and classes; takes root
    /// or fusermount3; a dead mount that a killed server left there is taken off
    #[arg(long, value_name = "DIR")]
    pub(crate) mount: Option<PathBuf>,
    /// The socket that 'uzram attr' and others steer it by [default: control.sock beside nbd.sock]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

fn export_name(name: &str) -> Result<String, String> {
    if name.len() > 4096 {
        Err("a name has at most 4096 bytes".to_owned())
    } else {
        Ok(name.to_owned())
    }
}

fn setting(text: &str) -> Result<AttributeSetting, String> {
    AttributeSetting::parse(text, "is what --size says")
}

impl ServeArgs {
    /// Returns what is to become of a saved file that is damaged.
    pub(crate) fn damage(&self) -> Damage {
        if self.salvage { Damage::Salvage } else { Damage::Refuse }
    }

    pub(crate) fn mem_limit(&self) -> MemLimit {
        MemLimit::new(self.mem_limit)
    }

    pub(crate) fn mode(&self) -> Mode {
        if self.read_only { Mode::ReadOnly } else { Mode::ReadWrite }
    }

    pub(crate) fn options(&self) -> Options {
        let workers = self.threads.map_or(Options::default().workers, usize::from);
        Options { workers, connections: self.connections.into() }
    }
}
