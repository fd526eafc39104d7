//! The memory of stored blocks, packing included, relative to the raw codec's output.

use zmem::{Advice, BackendKind};

use super::{LZ4, NAME, region};
use crate::Error;
use crate::experiments::blocks::{ZSTD, all_stored};
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};

const BLOCKS: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
const OVER_RAW_MAX: f64 = 1.02;

pub(super) fn run(input: Input, pages: &[u8], report: &mut Report<'_>) -> Result<(), Error> {
    for method in [ZSTD, LZ4] {
        for block in BLOCKS {
            let stored = all_stored(pages, block, &mut method.raw(block)?)?;
            let region = region(pages, method, block, BackendKind::Best)?;
            region.advise(0..pages.len(), Advice::Cold)?;
            let pool = region.stats().pool;
            if *region != *pages {
                let device = format!("a region with blocks of {} KiB", block >> 10);
                return Err(Error::Mismatch { device, offset: 0 });
            }
            let what = format!("{}/{method}, {} KiB", input.name(), block >> 10);
            let over = format!("{what}: memory over the raw codec's bytes");
            let figure = Figure::new(NAME, over, pool as f64 / stored as f64, "");
            report.add(figure.must(Bound::at_most(OVER_RAW_MAX)))?;
            let of_all = |bytes: u64| bytes as f64 / pages.len() as f64 * 100.0;
            let told =
                Figure::new(NAME, format!("{what}: memory over original"), of_all(pool), "%");
            report.add(told.rival(format!("raw {method}"), of_all(stored)))?;
        }
    }
    Ok(())
}
