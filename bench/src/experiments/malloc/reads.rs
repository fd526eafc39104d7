//! Random reads from a set larger than any cache: from a pool, by numbered slots and by handles,
//! and from one buffer. Each side finds a blob by a table entry of 8 bytes.

use std::fs;

use fastrand::Rng;
use measure::page::PAGE_SIZE;
use zram::Compaction;

use super::{Job, ROUNDS};
use crate::Error;
use crate::contents::{Blobs, Contents};
use crate::report::Report;
use crate::size;
use crate::stores::{Kept, PoolStore, SlotStore, Store};
use crate::turns::{Side, rounds, scaling};

const WHAT: &str = "read";
const COPY: &str = "memcpy";
/// The sides: two uzram pools, and the copy with which they are compared. The entry of a slot has 8
/// bytes, like an entry of the copy's table. A handle is found in a table first, and then refers to
/// its slot.
const NAMES: [&str; 3] = ["our slots", "our pool", COPY];
const OURS: usize = 2;
/// The ratio of the size of the set to the size of the last-level cache.
const CACHES: u64 = 8;
const CACHE_DEFAULT: u64 = 32 * size::MIB;

pub(super) fn run(job: &Job, report: &mut Report<'_>) -> Result<(), Error> {
    let wanted = (CACHES * last_cache()).min(job.limit.unwrap_or(u64::MAX));
    let mean = job.blobs.bytes().len() as u64 / u64::from(job.blobs.len().max(1));
    let blobs = job.blobs.taken((wanted / mean.max(1)) as u32 + 1);
    let slots = filled(&blobs, |slots| SlotStore::new(slots, Compaction::Auto))?;
    let handles = filled(&blobs, |slots| PoolStore::new(slots, Compaction::Auto))?;
    let packed = Packed::new(&blobs);
    let sides = |seed: u64| -> Vec<Box<dyn Side + '_>> {
        let slots = |nth, out: &mut [u8]| slots.store().read(nth, out);
        let handles = |nth, out: &mut [u8]| handles.store().read(nth, out);
        let copy = |nth, out: &mut [u8]| Ok(packed.read(nth, out));
        vec![
            Reads::boxed(blobs.len(), seed, slots),
            Reads::boxed(blobs.len(), seed, handles),
            Reads::boxed(blobs.len(), seed, copy),
        ]
    };
    let seconds = rounds(&mut sides(job.seed), ROUNDS, job.operations)?;
    job.report_times(WHAT, &NAMES, OURS, COPY, &seconds, report)?;
    let scales =
        scaling(NAMES.len(), ROUNDS, job.operations, |index| Ok(sides(job.seed + index as u64)))?;
    job.report_scaling(WHAT, &NAMES, OURS, &scales, report)
}

fn filled<S: Store>(
    blobs: &Blobs,
    make: impl FnOnce(u32) -> Result<S, Error>,
) -> Result<Kept<'_, S, Blobs>, Error> {
    let mut kept = Kept::new(blobs, make)?;
    kept.fill()?;
    kept.verify()?;
    Ok(kept)
}

/// Blobs that lie one after the other and are found by their start and length in one word.
struct Packed<'b> {
    bytes: &'b [u8],
    table: Vec<u64>,
}

impl<'b> Packed<'b> {
    fn new(blobs: &'b Blobs) -> Packed<'b> {
        let mut start = 0;
        let entry = |nth| {
            let len = blobs.get(nth).len() as u64;
            start += len;
            (start - len) << 16 | len
        };
        Packed { bytes: blobs.bytes(), table: (0..blobs.len()).map(entry).collect() }
    }

    fn read(&self, nth: u32, out: &mut [u8]) -> usize {
        let entry = self.table[nth as usize];
        let (start, len) = ((entry >> 16) as usize, (entry & 0xffff) as usize);
        out[..len].copy_from_slice(&self.bytes[start..start + len]);
        len
    }
}

/// A side that reads random blobs; `count` is the number of blobs.
struct Reads<R> {
    read: R,
    count: u32,
    out: [u8; PAGE_SIZE],
    rng: Rng,
}

impl<'a, R: Fn(u32, &mut [u8]) -> Result<usize, Error> + 'a> Reads<R> {
    fn boxed(count: u32, seed: u64, read: R) -> Box<dyn Side + 'a> {
        Box::new(Reads { read, count, out: [0; PAGE_SIZE], rng: Rng::with_seed(seed) })
    }
}

impl<R: Fn(u32, &mut [u8]) -> Result<usize, Error>> Side for Reads<R> {
    /// Returns a checksum of the last bytes that were read.
    fn turn(&mut self, operations: u64) -> Result<u64, Error> {
        let mut sum = 0_u64;
        for _ in 0..operations {
            let len = (self.read)(self.rng.u32(0..self.count), &mut self.out)?;
            sum = sum.wrapping_mul(31).wrapping_add(u64::from(self.out[len - 1]));
        }
        Ok(sum)
    }

    /// Does nothing, because the answers are compared and the stored data were verified before.
    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Returns the size of the last-level cache in bytes.
fn last_cache() -> u64 {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size");
    text.ok().and_then(|text| zram::memparse::parse(text.trim()).ok()).unwrap_or(CACHE_DEFAULT)
}
