//! A device of 16 TiB that holds a gibibyte in randomly scattered pages: its memory relative to
//! that of a device that holds the same pages contiguously.

use fastrand::Rng;
use measure::page::{PAGE_SIZE, first_difference};
use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::GIB;

const NAME: &str = "sparse";
/// The size of the largest device.
const DISKSIZE: u64 = (1 << 44) - PAGE_SIZE as u64;
/// The bytes that are written by default.
const LIMIT: u64 = GIB;
/// The bytes of a slot's entry.
const WORD: usize = 8;
const SHARE_MAX: f64 = 1.5;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        let pages = request.pages(input)?.capped(request.limit.unwrap_or(LIMIT)).load()?;
        let count = pages.len() / PAGE_SIZE;
        let dense = filled(&pages, 0..count as u64)?;
        let mut random = Rng::with_seed(request.seed);
        let anywhere: Vec<u64> =
            (0..count).map(|_| random.u64(..DISKSIZE / PAGE_SIZE as u64)).collect();
        let sparse = filled(&pages, anywhere.into_iter())?;
        let beyond = sparse.saturating_sub(dense) as f64 / (count * WORD) as f64;
        let told =
            format!("{}/memory beyond the dense device's, over the slots' own", input.name());
        report.add(Figure::new(NAME, told, beyond, "").must(Bound::at_most(SHARE_MAX)))?;
        let per_slot = sparse as f64 / dense as f64;
        let told = format!("{}/all memory over the dense device's", input.name());
        report.add(Figure::new(NAME, told, per_slot, ""))?;
    }
    Ok(())
}

/// Returns all memory of a device whose slots hold the pages. If a slot is written twice, the later
/// page remains.
fn filled(pages: &AlignedBuf, slots: impl Iterator<Item = u64> + Clone) -> Result<u64, Error> {
    let device = Device::new(Config::new(DISKSIZE)?)?;
    for (page, slot) in pages.chunks_exact(PAGE_SIZE).zip(slots.clone()) {
        device.write(slot * PAGE_SIZE as u64, page)?;
    }
    let total = device.mem_total();
    let mut back = [0; PAGE_SIZE];
    let mut seen = std::collections::HashSet::new();
    let written: Vec<_> = pages.chunks_exact(PAGE_SIZE).zip(slots).collect();
    for (page, slot) in written.into_iter().rev().filter(|&(_, slot)| seen.insert(slot)) {
        device.read(slot * PAGE_SIZE as u64, &mut back)?;
        if first_difference(page, &back).is_some() {
            let offset = slot * PAGE_SIZE as u64;
            return Err(Error::Mismatch { device: "our device".into(), offset });
        }
    }
    Ok(total)
}
