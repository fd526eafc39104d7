//! The command line of `uzram serve`.

use crate::memory::MemLimit;
use crate::policy::CONNECTIONS_MAX;
use crate::setting::AttributeSetting;
use crate::text::one_of;
use crate::values::{block, level};
use ::serve::Address;
use ::serve::fuse::Mapping;
use ::serve::nbd::bounds::STRING_MAX;
use ::serve::nbd::{Mode, Options};
use clap::{ArgGroup, Args};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use zcomp::Codec;
use zram::{Damage, memparse};

/// Serve a compressed device as a disk over NBD
///
/// The disk is kept compressed in memory. When the server ends, the contents of the disk are lost
/// if neither --save-on-exit nor 'uzram save' has saved them. The server needs neither root nor
/// another program. Clients connect over a Unix socket that only this user is allowed to use, or
/// over TCP. NBD has no authentication. Anyone who can reach a TCP port can read and write the
/// disk. Every user of this machine can reach a port on loopback.
///
/// If the disk is used as swap or mounted for writing on the server's machine, the kernel can free
/// some pages only after the server has stored them. The server reserves its buffers at the start.
/// As root, the server also asks the kernel not to make it wait for its own disk
/// (PR_SET_IO_FLUSHER). Nevertheless, set --mem-limit so that enough memory is left for the server.
///
/// If a service manager passes sockets (LISTEN_FDS, as systemd's socket units do), the server uses
/// these sockets instead of creating its own. A socket with the name nbd, control or metrics is
/// used for the purpose of that name. Sockets with other names are used for the remaining purposes,
/// in this order.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("disk").args(["size", "restore"]).required(true).multiple(true))]
#[command(after_help = "\
Sizes are bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB: 4096, 64K, 1GiB.

Exit codes:
  0    ended by SIGTERM, SIGINT, SIGQUIT or SIGHUP, and saved if that was asked for
  1    it could not start or go on; or a second signal ended the save. Or the disk is saved \
       elsewhere or in part, or was in use when it was saved: see the log
  2    wrong use

Examples:
  uzram serve --size 4G
  uzram serve --size 16G --algorithm zstd --mem-limit 4G --nbd unix:/run/disk.sock
  uzram serve --size 16G --algorithm zstd --block 32K
  uzram serve --size 1G --nbd tcp:10809 --export scratch
  uzram serve --size 16G --save-on-exit disk.uzram
  uzram serve --restore disk.uzram --save-on-exit disk.uzram
  uzram serve --size 64G --mem-limit 4G --backing /var/tmp/cold.bin
  uzram serve --size 4G --metrics 9190
  uzram serve --config /etc/uzram.conf --section scratch")]
pub(crate) struct ServeArgs {
    /// Read options from FILE, which has a section for each disk. A key of the file is the name of
    /// an option of this command without --, or one of zram-generator's keys zram-size,
    /// compression-algorithm, zram-resident-limit and writeback-device. Options on the command line
    /// override options in the file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Section of the file [default: the only section]
    #[arg(long, value_name = "NAME", requires = "config")]
    section: Option<String>,
    /// Size of the disk in bytes, rounded up to whole slots of 4 KiB [default: the size of the
    /// restored disk]
    #[arg(long, value_name = "SIZE", value_parser = memparse::parse)]
    pub(crate) size: Option<u64>,
    /// Start with the contents of a saved file. If FILE is damaged, the server does not start. If
    /// FILE is also the file of --save-on-exit and does not exist yet, the disk starts empty
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// Start with the intact parts of a saved file that is damaged or incomplete, and list the lost
    /// parts
    #[arg(long, requires = "restore")]
    salvage: bool,
    /// Save the disk to FILE on SIGTERM, SIGINT, SIGQUIT or SIGHUP, after all clients are
    /// disconnected. An existing file is replaced when the new file is complete. A second SIGTERM,
    /// SIGINT or SIGQUIT aborts the save, and the disk is lost. If FILE can't be written, or was
    /// created or changed by another program after the server had started, the disk is saved to
    /// FILE.1. If FILE.1 can't be written either, the disk is saved in $XDG_STATE_HOME/uzram (or
    /// ~/.local/state/uzram). If the disk can't be saved in any of these places, the server keeps
    /// running and tries again, until a save succeeds or 'uzram save' saves the disk elsewhere. The
    /// exit code is 1 if the disk was not saved in FILE. Only one server is allowed to use FILE, so
    /// the server locks the file .FILE.save-on-exit beside FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) save_on_exit: Option<PathBuf>,
    /// Backing store to which 'uzram writeback' moves data: a block device, whose contents are
    /// lost, or a FILE that does not exist yet. The server creates FILE and removes its name at
    /// once, so 'ls' does not show FILE. FILE uses disk space until the server ends
    #[arg(long, value_name = "FILE")]
    pub(crate) backing: Option<PathBuf>,
    #[arg(long, value_name = "NAME", value_parser = zcomp::by_name)]
    #[arg(help = format!(
        "Algorithm: {} [default: lz4, or that of what is restored]",
        one_of(zcomp::names())
    ))]
    pub(crate) algorithm: Option<&'static dyn Codec>,
    /// Level of the algorithm [default: the algorithm's default level]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = level)]
    pub(crate) level: Option<i32>,
    /// Number of bytes that are compressed as one block when clients write whole blocks: 4K, 8K,
    /// 16K, 32K or 64K [default: 4K, or the block size of the restored disk]
    #[arg(long, value_name = "SIZE", value_parser = block)]
    pub(crate) block: Option<usize>,
    /// Maximum memory of the pages that hold compressed data, including the free space in these
    /// pages. Same-filled slots, and data that were written back, use no pages. At the limit,
    /// writes fail with 'no space left'. Writes also fail if the device's tables use more memory
    /// than a quarter of the limit. With --set total_limit=SIZE, one limit applies to pages, tables
    /// and codecs' buffers together. The memory of connections is not counted. A value of 0 means
    /// no limit. Otherwise, the minimum is 64K. The default is lower if tables (22 bytes for each 4
    /// KiB of --size) and connections need more than the other 15% [default: 85% of the machine's
    /// memory or of the memory cgroup's limit]
    #[arg(long, value_name = "SIZE", value_parser = MemLimit::parse)]
    pub(crate) mem_limit: Option<MemLimit>,
    /// Set an attribute of the device before the device is created ('uzram attributes' lists the
    /// attributes); overrides other options; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<AttributeSetting>,
    /// Address to which clients connect: unix:PATH, tcp:HOST:PORT, tcp:PORT or tcp. With tcp:PORT
    /// or tcp, the server listens on loopback, which every user of this machine can reach [default:
    /// nbd.sock in $XDG_RUNTIME_DIR/uzram, or else /run/uzram or /tmp/uzram-UID]
    #[arg(long, value_name = "ADDRESS", value_parser = Address::parse)]
    pub(crate) nbd: Option<Address>,
    /// Export name of the disk; clients that request the empty name also get this disk
    #[arg(long, value_name = "NAME", default_value = "", value_parser = export_name)]
    pub(crate) export: String,
    /// Refuse writes by NBD clients and through the mount
    #[arg(long)]
    read_only: bool,
    /// Maximum number of simultaneous connections; further connections are refused
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(CONNECTIONS_MAX)))]
    connections: u16,
    /// Maximum number of threads of one connection. Besides one thread per connection, the server
    /// has at most 128 threads for all connections together [default: the number of processors, but
    /// at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// Also mount the device at DIR. In DIR, the file 'disk' is the disk, the directory 'attr'
    /// contains the attributes, and the file 'classes' shows the size classes. Needs root or
    /// fusermount3. A mount that a killed server has left at DIR is unmounted first
    #[arg(long, value_name = "DIR")]
    pub(crate) mount: Option<PathBuf>,
    /// Let programs map the file 'disk' of the mount with MAP_SHARED, as databases do. NBD clients
    /// can then only read. If a program writes data to a mapping, NBD clients see these data only
    /// after the program calls msync. Needs Linux 6.6 or newer
    #[arg(long, requires = "mount")]
    mmap: bool,
    /// Serve metrics for Prometheus over HTTP at /metrics. ADDRESS is PORT (on loopback) or
    /// HOST:PORT; everyone who can reach the port can read the metrics
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    pub(crate) metrics: Option<Address>,
    /// Control socket, which 'uzram attr' and other commands use [default: control.sock beside
    /// nbd.sock]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

fn export_name(name: &str) -> Result<String, String> {
    if name.len() > STRING_MAX {
        Err(format!("a name may have at most {STRING_MAX} bytes"))
    } else if name.contains('\0') {
        Err("a name may have no zero byte".to_owned())
    } else {
        Ok(name.to_owned())
    }
}

fn metrics_address(text: &str) -> Result<Address, String> {
    let expected = |_| "expected PORT or HOST:PORT".to_owned();
    Address::parse(&format!("tcp:{text}")).map_err(expected)
}

fn setting(text: &str) -> Result<AttributeSetting, String> {
    AttributeSetting::parse(text, "is what --size says")
}

impl ServeArgs {
    /// Returns the saved file from which the disk starts. Returns `None` if `--save-on-exit` names
    /// the same file and the file does not exist yet.
    pub(crate) fn restored(&self) -> Option<&Path> {
        let is_first = |path: &&Path| {
            self.save_on_exit.as_deref() == Some(path)
                && path.symlink_metadata().is_err_and(|why| why.kind() == ErrorKind::NotFound)
        };
        self.restore.as_deref().filter(|path| !is_first(path))
    }

    pub(crate) fn damage(&self) -> Damage {
        if self.salvage { Damage::Salvage } else { Damage::Refuse }
    }

    /// Returns whether users of the mount are allowed to write.
    pub(crate) fn mode(&self) -> Mode {
        if self.read_only { Mode::ReadOnly } else { Mode::ReadWrite }
    }

    /// Returns whether NBD clients are allowed to write.
    pub(crate) fn nbd_mode(&self) -> Mode {
        if self.mmap { Mode::ReadOnly } else { self.mode() }
    }

    pub(crate) fn mapping(&self) -> Mapping {
        if self.mmap { Mapping::Shared } else { Mapping::Private }
    }

    pub(crate) fn options(&self) -> Options {
        let workers = self.threads.map_or(Options::default().workers, usize::from);
        Options { workers, connections: self.connections.into() }
    }
}
