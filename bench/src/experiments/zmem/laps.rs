//! A heap that is evicted and filled again in order, many times: the time of all rounds, and the
//! memory of the store.

use zmem::{Advice, BackendKind};

use super::bed::{Swapped, Took, in_order, round, touch};
use super::held::Held;
use super::region;
use crate::Error;
use crate::experiments::blocks::Method;
use crate::kernel::{KernelSwap, Rival};

const PAGE: usize = 4096;
/// The index of the signal backend among the measured backends.
const SIGNAL: usize = 0;

/// The times of all rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Laps {
    /// The seconds of all evictions.
    pub(crate) out: f64,
    /// The seconds of all touches afterwards.
    pub(crate) back: f64,
    /// The memory of the store relative to the evicted bytes.
    pub(crate) ratio: f64,
}

/// Executes `rounds` rounds of each side in turn, after one round of each that warms up.
fn in_turn<R>(rounds: u64, sides: &mut [R]) -> Result<Vec<Laps>, Error>
where
    R: FnMut() -> Result<Took, Error>,
{
    let mut all = vec![Laps::default(); sides.len()];
    for side in &mut *sides {
        side()?;
    }
    for _ in 0..rounds {
        for (laps, side) in all.iter_mut().zip(&mut *sides) {
            let Took { out, back, .. } = side()?;
            laps.out += out;
            laps.back += back;
        }
    }
    Ok(all)
}

/// Measures the backend that needs no privileges, with blocks of each of these sizes in bytes.
pub(crate) fn ours(
    pages: &[u8],
    method: Method,
    blocks: &[usize],
    rounds: u64,
) -> Result<Vec<Laps>, Error> {
    let words = in_order(pages.len(), PAGE);
    let expected = touch(pages, &words);
    let held = blocks.iter().map(|block| Held::start(pages, method, *block, SIGNAL));
    let mut held = held.collect::<Result<Vec<_>, Error>>()?;
    let words = &words;
    let sides = held.iter_mut().map(|held| move || held.round(words, expected));
    let mut all = in_turn(rounds, &mut sides.collect::<Vec<_>>())?;
    drop(held);
    for (laps, block) in all.iter_mut().zip(blocks) {
        let region = region(pages, method, *block, BackendKind::Signal)?;
        region.advise(0..pages.len(), Advice::Cold)?;
        laps.ratio = region.stats().pool as f64 / pages.len() as f64;
    }
    Ok(all)
}

/// Measures the kernel's swap, with lz4 and folios of `folio` bytes.
pub(crate) fn kernels(pages: &[u8], folio: usize, rounds: u64) -> Result<Rival<Laps>, Error> {
    let swap = match KernelSwap::acquire("lz4", 2 * pages.len() as u64, folio)? {
        Rival::Present(swap) => swap,
        Rival::Absent(reason) => return Ok(Rival::Absent(reason)),
    };
    let words = in_order(pages.len(), PAGE);
    let expected = touch(pages, &words);
    let swapped = Swapped::new(swap, pages, folio)?;
    let all = in_turn(rounds, &mut [|| round(&swapped, &words, expected)])?;
    let ratio = swapped.used()? as f64 / pages.len() as f64;
    Ok(Rival::Present(Laps { ratio, ..all[0] }))
}
