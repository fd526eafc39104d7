//! The command lines of `uzram serve` and of those who steer it.

use crate::args::{Form, MemLimit, block};
use crate::attributes::{self, Setting};
use crate::runtime;
use clap::Args;
use serve::Address;
use std::path::PathBuf;
use zcomp::{Codec, Params};
use zram::memparse;

/// The most connections that can be asked for.
const CONNECTIONS_MAX: u16 = 1024;

/// Serve a compressed device as a disk over NBD
///
/// The disk lives in memory, compressed, and is gone when this ends. It needs no root and no other server. Clients
/// connect over a Unix socket that only this user may use, or over TCP. NBD has no authentication of its own: whoever
/// reaches a TCP port has the disk.
///
/// Of a disk that is used as swap, or mounted for writing, on the machine that serves it: the kernel may wait for this
/// process to store what it wants to free. Its buffers are made beforehand and it asks the kernel for memory
/// without waiting for its own disk (PR_SET_IO_FLUSHER, as root); leave it memory all the same, by --mem-limit.
#[derive(Debug, Args)]
#[command(after_help = "\
Sizes are bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB: 4096, 64K, 1GiB.

Exit codes:
  0    ended by SIGTERM or SIGINT
  1    it could not go on
  2    wrong use

Examples:
  uzram serve --size 4G
  uzram serve --size 16G --algorithm zstd --mem-limit 4G --nbd unix:/run/disk.sock
  uzram serve --size 16G --algorithm zstd --block 32K
  uzram serve --size 1G --nbd tcp:10809 --export scratch")]
pub(crate) struct ServeLine {
    /// Bytes of the disk, rounded up to whole blocks
    #[arg(long, value_name = "SIZE", value_parser = memparse::parse)]
    size: u64,
    /// Algorithm: lz4, lz4hc or zstd
    #[arg(long, value_name = "NAME", default_value = "lz4", value_parser = zcomp::by_name)]
    algorithm: &'static dyn Codec,
    /// Level of the algorithm [default: the algorithm's own]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    level: Option<i32>,
    /// Bytes compressed as one where clients write them as one: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = block)]
    block: usize,
    /// Most bytes of compressed pages; past it writes get 'no space left'; 0 is no limit [default: 85% of
    /// the memory there is, or of the memory cgroup's limit]
    #[arg(long, value_name = "SIZE", value_parser = memparse::parse)]
    mem_limit: Option<u64>,
    /// Set an attribute of the device before it is made, as 'uzram attributes' lists them; goes before
    /// what other options say; can be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = attributes::setting_of_served)]
    set: Vec<Setting>,
    /// Where clients connect: unix:PATH, tcp:HOST:PORT, tcp:PORT or tcp, which is loopback [default: nbd.sock in
    /// $XDG_RUNTIME_DIR/uzram, or else /run/uzram or /tmp/uzram-UID]
    #[arg(long, value_name = "ADDRESS", value_parser = Address::parse)]
    nbd: Option<Address>,
    /// Name of the disk; clients that ask for no name get it too
    #[arg(long, value_name = "NAME", default_value = "", value_parser = export_name)]
    export: String,
    /// Let clients only read
    #[arg(long)]
    read_only: bool,
    /// Connections at a time; more are refused
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=i64::from(CONNECTIONS_MAX)))]
    connections: u16,
    /// Threads for each connection [default: one per processor, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// Mount the device there too: the file disk, its attributes in attr, and classes; takes root or fusermount3
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// The socket that 'uzram attr' and others steer it by [default: control.sock beside nbd.sock]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// The server that is asked.
#[derive(Debug, Args)]
pub(crate) struct ControlLine {
    /// Its control socket [default: control.sock in $XDG_RUNTIME_DIR/uzram, or else /run/uzram or /tmp/uzram-UID]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Read and write attributes of a device that is served
///
/// Without a name, all that can be read are printed, but lists of all slots or classes; with one, that; with a value,
/// the attribute is set to it. 'uzram attributes' tells what they are.
#[derive(Debug, Args)]
pub(crate) struct AttrLine {
    #[command(flatten)]
    server: ControlLine,
    /// The attribute
    name: Option<String>,
    /// What it is to be set to
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long, conflicts_with = "value")]
    json: bool,
}

/// Show the device that is served as zramctl does
#[derive(Debug, Args)]
pub(crate) struct StatLine {
    #[command(flatten)]
    server: ControlLine,
    /// Print one JSON object instead of a table; all sizes are bytes
    #[arg(long)]
    json: bool,
}

/// Move objects of the device together, so that pages become free
#[derive(Debug, Args)]
pub(crate) struct CompactLine {
    #[command(flatten)]
    server: ControlLine,
}

/// Mark slots of the device idle: all, or those not accessed for long
#[derive(Debug, Args)]
pub(crate) struct IdleLine {
    #[command(flatten)]
    server: ControlLine,
    /// Only those not accessed for more than so many seconds, which takes --set track_access=1
    #[arg(long, value_name = "SECONDS")]
    older: Option<u64>,
}

/// `uzram serve`, checked.
#[derive(Debug)]
pub(crate) struct ServeArgs {
    pub(crate) size: u64,
    pub(crate) algorithm: &'static dyn Codec,
    pub(crate) params: Params,
    /// Bytes of a block.
    pub(crate) block: usize,
    pub(crate) mem_limit: MemLimit,
    pub(crate) set: Vec<Setting>,
    /// `None` is in the usual directory.
    pub(crate) nbd: Option<Address>,
    pub(crate) export: String,
    pub(crate) mode: serve::nbd::Mode,
    pub(crate) options: serve::nbd::Options,
    pub(crate) mount: Option<PathBuf>,
    pub(crate) control: Option<PathBuf>,
}

/// What is to be asked of a server.
#[derive(Debug)]
pub(crate) struct AskArgs {
    pub(crate) control: PathBuf,
    pub(crate) ask: Ask,
}

/// What there is to ask.
#[derive(Debug)]
pub(crate) enum Ask {
    /// All attributes.
    All(Form),
    Show(String, Form),
    Store(String, String),
    Stat(Form),
}

fn export_name(name: &str) -> Result<String, String> {
    if name.len() > 4096 {
        Err("a name has at most 4096 bytes".to_owned())
    } else {
        Ok(name.to_owned())
    }
}

impl From<ServeLine> for ServeArgs {
    fn from(line: ServeLine) -> Self {
        let defaults = serve::nbd::Options::default();
        ServeArgs {
            size: line.size,
            algorithm: line.algorithm,
            params: Params { level: line.level, ..Params::default() },
            block: line.block,
            mem_limit: MemLimit::new(line.mem_limit),
            set: line.set,
            nbd: line.nbd,
            export: line.export,
            mode: if line.read_only {
                serve::nbd::Mode::ReadOnly
            } else {
                serve::nbd::Mode::ReadWrite
            },
            options: serve::nbd::Options {
                workers: line.threads.map_or(defaults.workers, usize::from),
                connections: line.connections.into(),
            },
            mount: line.mount,
            control: line.control,
        }
    }
}

impl ControlLine {
    fn path(self) -> PathBuf {
        self.control.unwrap_or_else(|| runtime::directory().join(runtime::CONTROL))
    }
}

impl From<AttrLine> for AskArgs {
    fn from(line: AttrLine) -> Self {
        let form = Form::new(line.json);
        let ask = match (line.name, line.value) {
            (None, _) => Ask::All(form),
            (Some(name), None) => Ask::Show(name, form),
            (Some(name), Some(value)) => Ask::Store(name, value),
        };
        AskArgs { control: line.server.path(), ask }
    }
}

impl From<StatLine> for AskArgs {
    fn from(line: StatLine) -> Self {
        AskArgs { control: line.server.path(), ask: Ask::Stat(Form::new(line.json)) }
    }
}

impl From<CompactLine> for AskArgs {
    fn from(line: CompactLine) -> Self {
        let ask = Ask::Store("compact".to_owned(), "1".to_owned());
        AskArgs { control: line.server.path(), ask }
    }
}

impl From<IdleLine> for AskArgs {
    fn from(line: IdleLine) -> Self {
        let age = line.older.map_or_else(|| "all".to_owned(), |seconds| seconds.to_string());
        AskArgs { control: line.server.path(), ask: Ask::Store("idle".to_owned(), age) }
    }
}
