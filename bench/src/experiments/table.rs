//! The memory of a slot without its data: all memory of a dense device except the pool's pages, per
//! stored slot.

use measure::page::{PAGE_SIZE, same_filled};
use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::filled::write;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;

const NAME: &str = "table";
const LIMIT: u64 = 512 * MIB;
const BYTES_MAX: f64 = 20.0;
/// The kernel's table entry, and its allocator's handle and header for each object: 16, 8 and 8
/// bytes.
const KERNEL: f64 = 32.0;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        let pages = request.pages(input)?.capped(request.limit.unwrap_or(LIMIT)).load()?;
        for (what, track_access) in [("slot", false), ("slot with its time of access", true)] {
            let bytes = bytes_per_slot(&pages, track_access)?;
            let told = format!("{}/metadata per {what}", input.name());
            let figure = Figure::new(NAME, told, bytes, "bytes");
            // The bound applies to the default, without access times.
            let figure = if track_access { figure } else { figure.must(Bound::at_most(BYTES_MAX)) };
            report.add(figure.rival("the kernel, by its structures", KERNEL))?;
        }
    }
    Ok(())
}

fn bytes_per_slot(pages: &AlignedBuf, track_access: bool) -> Result<f64, Error> {
    let config = Config { track_access, ..Config::new(pages.len() as u64)? };
    let device = Device::new(config)?;
    write(&device, pages)?;
    let stored = pages.chunks_exact(PAGE_SIZE).filter(|page| same_filled(page).is_none()).count();
    let metadata = device.mem_total().saturating_sub(device.mm_stat().mem_used_total);
    Ok(metadata as f64 / stored.max(1) as f64)
}
