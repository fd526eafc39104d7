//! One figure is the memory of a slot besides its data: the memory of a dense device, without the
//! pool's pages, divided by the number of stored slots. The other figures compare the memory of two
//! devices of 16 TiB: one with pages at random offsets, and one with the same pages in order.

use std::collections::HashSet;

use fastrand::Rng;
use measure::page::{PAGE_SIZE, same_filled};
use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::filled::write;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::{GIB, MIB};

const NAME: &str = "sparse";
/// The size of the largest device.
const DISKSIZE: u64 = (1 << 44) - PAGE_SIZE as u64;
/// The default numbers of bytes that are written: at random offsets, and to the dense device.
const LIMIT: u64 = GIB;
const DENSE_LIMIT: u64 = 512 * MIB;
/// The size of a slot's entry in bytes.
const WORD: usize = 8;
const SHARE_MAX: f64 = 1.5;
/// The maximum memory of a slot besides its data, in bytes.
const BYTES_MAX: f64 = 20.0;
/// The bytes that the kernel uses for a slot besides its data. The table's entry takes 16 bytes,
/// the allocator's handle 8, and the object's header 8.
const KERNEL: f64 = 32.0;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        let pages = |limit| request.pages(input)?.capped(request.limit.unwrap_or(limit)).load();
        slots(input, &pages(DENSE_LIMIT)?, report)?;
        scattered(input, &pages(LIMIT)?, request.seed, report)?;
    }
    Ok(())
}

fn slots(input: Input, pages: &AlignedBuf, report: &mut Report<'_>) -> Result<(), Error> {
    for (what, track_access) in [("slot", false), ("slot with its time of access", true)] {
        let bytes = bytes_per_slot(pages, track_access)?;
        let told = format!("{}/metadata per {what}", input.name());
        // The bound applies only to a device that records no access times, which is the default.
        let must = (!track_access).then_some(Bound::at_most(BYTES_MAX));
        let figure = Figure::new(NAME, told, bytes, "bytes").must(must);
        report.add(figure.rival("the kernel, by its structures", KERNEL))?;
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

fn scattered(
    input: Input,
    pages: &AlignedBuf,
    seed: u64,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let count = pages.len() / PAGE_SIZE;
    let in_order: Vec<u64> = (0..count as u64).collect();
    let mut random = Rng::with_seed(seed);
    let anywhere: Vec<u64> =
        (0..count).map(|_| random.u64(..DISKSIZE / PAGE_SIZE as u64)).collect();
    let (dense, sparse) = (filled(pages, &in_order)?, filled(pages, &anywhere)?);
    let beyond = sparse.saturating_sub(dense) as f64 / (count * WORD) as f64;
    let told = format!("{}/memory beyond the dense device's, over the slots' own", input.name());
    report.add(Figure::new(NAME, told, beyond, "").must(Bound::at_most(SHARE_MAX)))?;
    let told = format!("{}/all memory over the dense device's", input.name());
    report.add(Figure::new(NAME, told, sparse as f64 / dense as f64, ""))
}

/// Writes `pages` to `slots` of a new device, and returns the device's memory in bytes. A slot may
/// be written twice.
fn filled(pages: &AlignedBuf, slots: &[u64]) -> Result<u64, Error> {
    let device = Device::new(Config::new(DISKSIZE)?)?;
    let written = || pages.chunks_exact(PAGE_SIZE).zip(slots);
    for (page, slot) in written() {
        device.write(slot * PAGE_SIZE as u64, page)?;
    }
    let total = device.mem_total();
    let (mut back, mut seen) = ([0; PAGE_SIZE], HashSet::new());
    for (page, slot) in written().rev().filter(|&(_, slot)| seen.insert(slot)) {
        let offset = slot * PAGE_SIZE as u64;
        device.read(offset, &mut back)?;
        Error::compare("our device", offset, page, &back)?;
    }
    Ok(total)
}
