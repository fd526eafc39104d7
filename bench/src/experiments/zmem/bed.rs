//! Memory that can be evicted and filled again, by uzram or by the kernel.

use std::hint::black_box;

use measure::clock::{Clock, Stopwatch};
use serde::{Deserialize, Serialize};
use zmem::{Advice, Region};

use super::PAGE;
use crate::Error;
use crate::kernel::{KernelSwap, PagedMemory};

/// The maximum percentage of the pages that are allowed to stay resident after all of the memory
/// was evicted.
const LEFT_PERCENT: usize = 2;
/// The number of bytes that are allowed to stay resident in addition to `LEFT_PERCENT`. The kernel
/// buffers up to about 31 pages per processor outside its lists, and does not evict these pages.
const LEFT_BYTES: usize = 1 << 20;

/// Memory that can be evicted on request.
pub(super) trait Paged: Sync {
    fn name(&self) -> &'static str;

    fn bytes(&self) -> &[u8];

    /// Evicts all of the memory.
    fn out(&self) -> Result<(), Error>;

    /// Returns the number of resident bytes.
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
    // The memory is dropped before the swap is removed.
    memory: PagedMemory,
    swap: KernelSwap,
}

impl Swapped {
    pub(super) fn new(swap: KernelSwap, pages: &[u8], folio: usize) -> Result<Swapped, Error> {
        let mut memory = PagedMemory::new(pages.len(), folio > PAGE)?;
        memory.copy_from_slice(pages);
        Ok(Swapped { memory, swap })
    }

    /// Evicts all of the memory. Returns the number of bytes that the zram device uses for it.
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

/// The times of a round in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Took {
    pub(super) out: f64,
    pub(super) back: f64,
    pub(super) out_cpu: f64,
    pub(super) back_cpu: f64,
}

/// Evicts all of the memory, and touches 8 bytes of it again at each of `offsets`.
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
    Error::answer('B', expected, found)?;
    let (back, back_cpu) = (wall.seconds() - out, cpu.seconds() - out_cpu);
    Ok(Took { out, back, out_cpu, back_cpu })
}

/// Returns a checksum of the 8-byte words at `offsets`.
pub(super) fn touch(bytes: &[u8], offsets: &[usize]) -> u64 {
    let word = |offset: usize| {
        let word = bytes[offset..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        black_box(word)
    };
    offsets.iter().fold(0, |sum: u64, &offset| sum.wrapping_mul(31) ^ word(offset))
}

/// Returns the offsets of all blocks of `block` bytes.
pub(super) fn in_order(bytes: usize, block: usize) -> Vec<usize> {
    (0..bytes).step_by(block).collect()
}
