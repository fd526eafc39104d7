//! Stores whole inputs on devices with blocks of 4, 16 and 64 KiB, as in the kernel's patch series
//! of 2024 on multi-page blocks. A figure is the memory of a device, relative to the raw codec's
//! output for blocks of the same size.

use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::filled::{settle, verify, write};
use crate::inputs::Input;
use crate::method::{Method, report_memory};
use crate::report::Report;

const NAME: &str = "blocks-ratio";
/// The maximum number of waits until a device's memory settles.
const LOOKS_MAX: usize = 10;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Heap, Input::Source]) {
        let pages = request.pages(input)?.load()?;
        report_memory(
            NAME,
            input.name(),
            &pages,
            |method, block| used(&pages, method, block),
            report,
        )?;
    }
    Ok(())
}

/// Stores `pages` on a device, and returns the size of the device's pages in bytes.
fn used(pages: &[u8], method: Method, block: usize) -> Result<u64, Error> {
    let algorithm = zcomp::by_name(method.codec)?;
    let config = Config::new(pages.len() as u64)?;
    let device = Device::new(Config { algorithm, params: method.params(), block, ..config })?;
    write(&device, pages)?;
    let used = settled(&device);
    verify(&device, pages)?;
    Ok(used)
}

/// Waits until the number of bytes in the device's pages stays the same for a moment, and returns
/// this number. Compaction runs at a lower priority, so the wait takes long on a busy machine.
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
