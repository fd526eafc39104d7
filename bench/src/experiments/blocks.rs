//! Blocks of several pages that are compressed as one (the multi-page series of 2024). The figures
//! are the memory and time that they save and the cost of partial reads and writes, compared with
//! blocks of a page and with the raw codec.

mod bed;
pub(super) mod cpu;
pub(super) mod density;
pub(super) mod partial;
pub(super) mod ratio;

use std::fmt;

use crate::codec::RawCodec;
use zcomp::Params;
use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::report::Report;
use crate::stores::settle;
use crate::summary::Summary;

/// The size of the blocks that most experiments measure, in bytes.
const BLOCK: usize = 16 << 10;
/// The maximum number of waits until a device's memory settles.
const LOOKS_MAX: usize = 10;

/// A codec and its level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method {
    pub(crate) codec: &'static str,
    level: Option<i32>,
}

/// The method with which the multi-page series was measured.
pub(crate) const ZSTD: Method = Method { codec: "zstd", level: Some(3) };
pub(crate) const LZ4: Method = Method { codec: "lz4", level: None };

impl Method {
    pub(super) fn params(self) -> Params {
        Params { level: self.level, ..Params::default() }
    }

    /// Returns the raw codec for blocks of `block` bytes.
    pub(super) fn raw(self, block: usize) -> Result<RawCodec, Error> {
        Ok(RawCodec::with(self.codec, &self.params(), block)?)
    }

    /// Returns an empty device of `bytes` bytes with blocks of `block` bytes.
    fn device(self, bytes: usize, block: usize) -> Result<Device, Error> {
        let algorithm = zcomp::by_name(self.codec)?;
        let config = Config::new(bytes as u64)?;
        Ok(Device::new(Config { algorithm, params: self.params(), block, ..config })?)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Some(level) => write!(f, "{} {level}", self.codec),
            None => f.write_str(self.codec),
        }
    }
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let parts = [ratio::run, cpu::run, partial::run, density::run];
    parts.iter().try_for_each(|run| run(request, report))
}

/// Returns C, the sum of the stored lengths, of `bytes` in blocks of `block` bytes.
pub(super) fn all_stored(bytes: &[u8], block: usize, codec: &mut RawCodec) -> Result<u64, Error> {
    bytes.chunks(block).map(|block| Ok(codec.stored_len(block)? as u64)).sum()
}

/// Returns the bytes of the device's pages after they have stayed the same for a moment. Compaction
/// runs at a lower priority, so it takes long on a busy machine.
fn settled(device: &Device) -> u64 {
    let used = || device.mm_stat().mem_used_total;
    let mut before = used();
    for _ in 0..LOOKS_MAX {
        settle();
        let now = used();
        if std::mem::replace(&mut before, now) == now {
            break;
        }
    }
    before
}

fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

/// Returns the median of the results of `each` over all rows.
fn median_of<const ROWS: usize>(rows: &[[f64; ROWS]], each: impl Fn(&[f64; ROWS]) -> f64) -> f64 {
    median(&rows.iter().map(each).collect::<Vec<_>>())
}
