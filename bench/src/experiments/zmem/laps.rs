//! A heap that is evicted and filled again many times. The blocks are filled in the order of their
//! addresses. The figures are the time of all rounds and the memory of the store.

use zmem::{Advice, BackendKind};

use super::bed::{Swapped, Took, in_order, round, touch};
use super::held::Held;
use super::{PAGE, region};
use crate::Error;
use crate::kernel::{KernelSwap, Rival};
use crate::method::Method;
use crate::turns::in_turns;

/// The index of the signal backend among the measured backends.
const SIGNAL: usize = 0;

/// The times of all rounds, and the memory of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Laps {
    /// The seconds of all evictions.
    pub(crate) out: f64,
    /// The seconds of all touches after the evictions.
    pub(crate) back: f64,
    /// The memory of the store relative to the evicted bytes.
    pub(crate) ratio: f64,
}

impl Laps {
    fn of(rounds: &[Took], used: u64, bytes: usize) -> Laps {
        let out = rounds.iter().map(|took| took.out).sum();
        let back = rounds.iter().map(|took| took.back).sum();
        Laps { out, back, ratio: used as f64 / bytes as f64 }
    }
}

/// Measures the backend that needs no privileges, with each of the block sizes `blocks`, in bytes.
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
    let all = in_turns(blocks.len(), rounds, |side| held[side].round(&words, expected))?;
    drop(held);
    let laps = all.iter().zip(blocks).map(|(rounds, block)| {
        let region = region(pages, method, *block, BackendKind::Signal)?;
        region.advise(0..pages.len(), Advice::Cold)?;
        Ok(Laps::of(rounds, region.stats().pool, pages.len()))
    });
    laps.collect()
}

/// Measures the kernel's swap, with lz4 and folios of `folio` bytes.
pub(crate) fn kernels(pages: &[u8], folio: usize, rounds: u64) -> Result<Rival<Laps>, Error> {
    KernelSwap::acquire("lz4", 2 * pages.len() as u64, folio)?.try_map(|swap| {
        let words = in_order(pages.len(), PAGE);
        let expected = touch(pages, &words);
        let swapped = Swapped::new(swap, pages, folio)?;
        let all = in_turns(1, rounds, |_| round(&swapped, &words, expected))?;
        Ok(Laps::of(&all[0], swapped.used()?, pages.len()))
    })
}
