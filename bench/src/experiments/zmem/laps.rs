//! A heap goes out and comes back in order, many times: the time of all rounds, and what it takes
//! while it is out.

use zmem::{Advice, BackendKind};

use super::bed::{Swapped, Took, in_order, round, touch};
use super::held::Held;
use super::region;
use crate::Error;
use crate::experiments::blocks::Method;
use crate::kernel::{KernelSwap, Rival};

const PAGE: usize = 4096;
/// Its place among the backends that are measured.
const SIGNAL: usize = 0;

/// What all rounds take.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Laps {
    /// Seconds for all that goes out.
    pub(crate) out: f64,
    /// Seconds for all that comes back.
    pub(crate) back: f64,
    /// Memory of the store over the bytes that are out.
    pub(crate) ratio: f64,
}

impl Laps {
    fn add(&mut self, took: &Took) {
        self.out += took.out;
        self.back += took.back;
    }
}

/// By the backend that needs no right, in blocks of `block` bytes. One round before warms up.
pub(crate) fn ours(pages: &[u8], method: Method, block: usize, rounds: u64) -> Result<Laps, Error> {
    let words = in_order(pages.len(), PAGE);
    let expected = touch(pages, &words);
    let mut held = Held::start(pages, method, block, SIGNAL)?;
    held.round(&words, expected)?;
    let mut laps = Laps::default();
    for _ in 0..rounds {
        laps.add(&held.round(&words, expected)?);
    }
    drop(held);
    let region = region(pages, method, block, BackendKind::Signal)?;
    region.advise(0..pages.len(), Advice::Cold)?;
    laps.ratio = region.stats().pool as f64 / pages.len() as f64;
    Ok(laps)
}

/// By the kernel's swap, with lz4 and folios of `folio` bytes.
pub(crate) fn kernels(pages: &[u8], folio: usize, rounds: u64) -> Result<Rival<Laps>, Error> {
    let swap = match KernelSwap::acquire("lz4", 2 * pages.len() as u64, folio)? {
        Rival::Present(swap) => swap,
        Rival::Absent(reason) => return Ok(Rival::Absent(reason)),
    };
    let words = in_order(pages.len(), PAGE);
    let expected = touch(pages, &words);
    let swapped = Swapped::new(swap, pages, folio)?;
    round(&swapped, &words, expected)?;
    let mut laps = Laps::default();
    for _ in 0..rounds {
        laps.add(&round(&swapped, &words, expected)?);
    }
    laps.ratio = swapped.used()? as f64 / pages.len() as f64;
    Ok(Rival::Present(laps))
}
