//! The memory of stored blocks relative to the raw codec's output. The memory includes gaps between
//! packed objects.

use zmem::{Advice, BackendKind};

use super::{NAME, region};
use crate::Error;
use crate::inputs::Input;
use crate::method::report_memory;
use crate::report::Report;

pub(super) fn run(input: Input, pages: &[u8], report: &mut Report<'_>) -> Result<(), Error> {
    let used = |method, block| {
        let region = region(pages, method, block, BackendKind::Best)?;
        region.advise(0..pages.len(), Advice::Cold)?;
        let pool = region.stats().pool;
        if *region != *pages {
            let device = format!("a region with blocks of {} KiB", block >> 10);
            return Err(Error::Mismatch { device, offset: 0 });
        }
        Ok(pool)
    };
    report_memory(NAME, input.name(), pages, used, report)
}
