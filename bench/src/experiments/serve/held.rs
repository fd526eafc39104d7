//! The process that serves a uzram device, with its instructions and its answers.

use std::io::stdin;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serve::fuse::{Mapping, MountOptions, Mounted};
use serve::nbd::{Export, Exports, Mode, Options, Server};
use serve::{Address, Log};
use zcomp::Params;
use zram::{Compaction, Config, Zram};
use zsmalloc::{ChainRule, Geometry, KernelGeometry};

use crate::Error;
use crate::own::{answer, failed};

/// The geometry of a device's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolKind {
    /// uzram's own geometry, with automatic compaction.
    Native,
    /// The geometry of older kernels, and their rule for the length of a page chain. A chain has at
    /// most `chain` pages. There is no automatic compaction.
    Kernel { chain: usize, merge: bool },
}

/// The instructions for the process that serves a uzram device.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub(super) path: PathBuf,
    pub(super) algorithm: String,
    pub(super) level: Option<i32>,
    pub(super) block: usize,
    pub(super) bytes: u64,
    pub(super) mount: Option<PathBuf>,
    pub(super) pool: PoolKind,
}

/// The amounts of data on a device, in bytes: the written data, the compressed data, and the pages
/// of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holds {
    pub(crate) data: u64,
    pub(crate) compressed: u64,
    pub(crate) used: u64,
}

/// Serves a device until this process is killed or its standard input ends.
pub fn hold(order: Order) -> Result<(), Error> {
    let config = Config {
        algorithm: zcomp::by_name(&order.algorithm)?,
        params: Params { level: order.level, ..Params::default() },
        block: order.block,
        geometry: order.pool.geometry(),
        compaction: order.pool.compaction(),
        ..Config::new(order.bytes)?
    };
    let zram = Arc::new(Zram::new());
    let config = Config { disksize: 0, ..config };
    zram.configure("settings", |settings| {
        *settings = config;
        Ok(())
    })?;
    zram.set_disksize(order.bytes)?;
    let device = Arc::new(zram.open()?);
    let export = Export {
        name: String::new(),
        description: String::new(),
        disk: device.clone(),
        mode: Mode::ReadWrite,
    };
    let listening = Address::Unix(order.path).listen().map_err(failed)?;
    let log = Log::new(|line| eprintln!("bench: {line}"));
    let _server = Server::start(listening, Exports::new([export]), Options::default(), log.clone())
        .map_err(failed)?;
    let options = MountOptions {
        mode: Mode::ReadWrite,
        mapping: Mapping::Private,
        threads: Options::default().workers,
    };
    let mounted = order.mount.map(|dir| Mounted::start(&dir, zram, device.clone(), options, log));
    let _mounted = mounted.transpose().map_err(failed)?;
    for asked in stdin().lines() {
        asked.map_err(failed)?;
        let mm = device.mm_stat();
        let (data, compressed) = (mm.orig_data_size, mm.compr_data_size);
        answer(&Holds { data, compressed, used: mm.mem_used_total })?;
    }
    // The requesting process has closed its end of the pipe.
    Ok(())
}

impl PoolKind {
    pub(crate) fn geometry(self) -> Geometry {
        match self {
            PoolKind::Native => Geometry::default(),
            PoolKind::Kernel { chain, merge } => Geometry::Kernel(KernelGeometry {
                chain,
                rule: ChainRule::UsedPercent,
                merge,
                order: 0,
            }),
        }
    }

    fn compaction(self) -> Compaction {
        match self {
            PoolKind::Native => Compaction::default(),
            PoolKind::Kernel { .. } => Compaction::Manual,
        }
    }
}
