//! Memory that goes out and comes back, ours or the kernel's.

use std::hint::black_box;

use measure::clock::{Clock, Stopwatch};
use serde::{Deserialize, Serialize};
use zmem::{Advice, Region};

use crate::Error;
use crate::kernel::{KernelSwap, PagedMemory};

/// Pages out of a hundred that may stay, where all are to go.
const LEFT_PERCENT: usize = 2;
/// And so much beside that: the kernel keeps some 31 pages of each processor's off its lists.
const LEFT_BYTES: usize = 1 << 20;
const PAGE: usize = 4096;

/// Memory that can be told to go.
pub(super) trait Paged: Sync {
    fn name(&self) -> &'static str;

    fn bytes(&self) -> &[u8];

    /// Has all of it go.
    fn out(&self) -> Result<(), Error>;

    /// Bytes that have not gone.
    fn resident(&self) -> usize;
}

impl Paged for Region {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn bytes(&self) -> &[u8] {
        self
    }

    fn out(&self) -> Result<(), Error> {
        Ok(self.advise(0..self.len(), Advice::Cold)?)
    }

    fn resident(&self) -> usize {
        self.stats().resident as usize
    }
}

/// Memory of this process that the kernel swaps.
pub(super) struct Swapped {
    // Back before the swap goes.
    memory: PagedMemory,
    swap: KernelSwap,
}

impl Swapped {
    pub(super) fn new(swap: KernelSwap, pages: &[u8], folio: usize) -> Result<Swapped, Error> {
        let mut memory = PagedMemory::new(pages.len(), folio > PAGE)?;
        memory.copy_from_slice(pages);
        Ok(Swapped { memory, swap })
    }

    /// Returns the bytes that its device takes for all of it, which goes for that.
    pub(super) fn used(&self) -> Result<u64, Error> {
        self.out()?;
        Ok(self.swap.mm_stat()?.mem_used_total)
    }
}

impl Paged for Swapped {
    fn name(&self) -> &'static str {
        "the kernel's swap"
    }

    fn bytes(&self) -> &[u8] {
        &self.memory
    }

    fn out(&self) -> Result<(), Error> {
        self.memory.page_out(0..self.memory.len());
        Ok(())
    }

    fn resident(&self) -> usize {
        self.memory.resident()
    }
}

/// What a round takes, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Took {
    pub(super) out: f64,
    pub(super) back: f64,
    pub(super) out_cpu: f64,
    pub(super) back_cpu: f64,
}

/// All of it goes, and is touched again at these offsets, a word at each.
pub(super) fn round(paged: &dyn Paged, offsets: &[usize], expected: u64) -> Result<Took, Error> {
    let (mut wall, mut cpu) = (Stopwatch::new(Clock::Wall), Stopwatch::new(Clock::ProcessCpu));
    wall.time(|| cpu.time(|| paged.out()))?;
    let left = paged.resident();
    if left > paged.bytes().len() / 100 * LEFT_PERCENT + LEFT_BYTES {
        let reason = format!("{left} bytes stayed in memory with {}", paged.name());
        let remedy = "unlock memory (ulimit -l), and let the machine have memory for its swap";
        return Err(Error::Setup { reason, remedy });
    }
    let (out, out_cpu) = (wall.seconds(), cpu.seconds());
    let found = wall.time(|| cpu.time(|| touch(paged.bytes(), offsets)));
    if found != expected {
        return Err(Error::Answer { side: 'B', expected, found });
    }
    let (back, back_cpu) = (wall.seconds() - out, cpu.seconds() - out_cpu);
    Ok(Took { out, back, out_cpu, back_cpu })
}

/// The sum of a word at each of the offsets.
pub(super) fn touch(bytes: &[u8], offsets: &[usize]) -> u64 {
    let word = |offset: usize| {
        let word = bytes[offset..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        black_box(word)
    };
    offsets.iter().fold(0, |sum: u64, &offset| sum.wrapping_mul(31) ^ word(offset))
}

/// The beginnings of all blocks.
pub(super) fn in_order(bytes: usize, block: usize) -> Vec<usize> {
    (0..bytes).step_by(block).collect()
}
