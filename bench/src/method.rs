//! The compared codecs and block sizes, and the report of the memory that pages use with each of
//! them.

use std::fmt;

use crate::codec::RawCodec;
use zcomp::Params;

use crate::Error;
use crate::report::{Bound, Figure, Report};

/// The sizes of blocks that are compared, in bytes.
pub(crate) const BLOCKS: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
/// The maximum ratio of the used memory to C.
const OVER_RAW_MAX: f64 = 1.02;

/// A codec and its level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method {
    pub(crate) codec: &'static str,
    level: Option<i32>,
}

/// The method with which the patch series on multi-page blocks was measured.
pub(crate) const ZSTD: Method = Method { codec: "zstd", level: Some(3) };
pub(crate) const LZ4: Method = Method { codec: "lz4", level: None };

impl Method {
    pub(crate) fn params(self) -> Params {
        Params { level: self.level, ..Params::default() }
    }

    /// Returns the raw codec for blocks of `block` bytes.
    pub(crate) fn raw(self, block: usize) -> Result<RawCodec, Error> {
        Ok(RawCodec::with(self.codec, &self.params(), block)?)
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

/// Reports the memory that `pages` use, for each method and block size: relative to C, and relative
/// to the size of `pages`. `used` stores `pages` and returns the memory used, in bytes.
pub(crate) fn report_memory(
    experiment: &str,
    input: &str,
    pages: &[u8],
    used: impl Fn(Method, usize) -> Result<u64, Error>,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let of_all = |bytes: u64| bytes as f64 / pages.len() as f64 * 100.0;
    for method in [ZSTD, LZ4] {
        for block in BLOCKS {
            let mut raw = method.raw(block)?;
            let lens = pages.chunks(block).map(|block| Ok(raw.stored_len(block)? as u64));
            let stored = lens.sum::<Result<u64, Error>>()?;
            let used = used(method, block)?;
            let figure = |what: &str, value, unit| {
                let name = format!("{input}/{method}, {} KiB: memory over {what}", block >> 10);
                Figure::new(experiment, name, value, unit)
            };
            let over = figure("the raw codec's bytes", used as f64 / stored as f64, "");
            report.add(over.must(Bound::at_most(OVER_RAW_MAX)))?;
            let told = figure("original", of_all(used), "%");
            report.add(told.rival(format!("raw {method}"), of_all(stored)))?;
        }
    }
    Ok(())
}
