//! Pools of several sizes at their limits. The time of a free and a store at the limit is compared
//! with the time below the limit, and with the time in smaller pools.

use std::ops::RangeInclusive;

use fastrand::Rng;
use measure::clock::{Clock, Stopwatch};
use zsmalloc::{Columns, Content, EntryPool};

use super::{Job, NAME, ROUNDS, SMALL, report_growth, told};
use crate::Error;
use crate::report::{Bound, Figure, Report};
use crate::summary::{median, ratio};
use crate::turns::{each, in_turns};

/// The number of objects that are replaced. The number does not depend on the pool's size, so all
/// pools use the processor's caches equally.
const WORKED_ON: u32 = 32_768;
/// One in `HOLES` of the objects that are never replaced is freed. The freed objects are chosen at
/// random, so most zspages become partly filled.
const HOLES: u32 = 16;
/// The lengths of the objects that are never replaced, and of the objects that are replaced. The
/// two ranges belong to different size classes, so a replaced object does not fill a hole that a
/// freed object left.
const LENS: [RangeInclusive<usize>; 2] = [200..=1900, 2000..=3800];
/// The maximum time of a store at the limit, relative to the time of a store below the limit.
const LIMIT_MAX: f64 = 1.3;

pub(super) fn run(job: &Job, report: &mut Report<'_>) -> Result<(), Error> {
    // The request may limit the largest pool to less than the small sizes.
    let sizes: Vec<u64> = SMALL.into_iter().filter(|&small| small < job.stored).collect();
    let small = sizes.len();
    let sizes: Vec<u64> = sizes.into_iter().chain([job.stored]).collect();
    let pools = sizes.iter().map(|&bytes| Full::new(bytes, job.seed));
    let mut pools = pools.collect::<Result<Vec<_>, _>>()?;
    let rounds = in_turns(pools.len(), ROUNDS, |nth| pools[nth].churn_twice(job.operations))?;
    let costs = |nth: usize| {
        let costs = rounds.iter().map(|rounds| each(rounds, |costs| costs[nth]));
        sizes.iter().copied().zip(costs).collect::<Vec<_>>()
    };
    let [free, limited] = [0, 1].map(costs);
    report_growth("a free and a store at the limit, by what is stored", &limited, small, report)?;
    for ((bytes, limited), (_, free)) in limited.iter().zip(&free) {
        let name = format!("at the limit over away from it/{}", told(*bytes));
        let over = Figure::new(NAME, name, ratio(limited, free), "");
        report.add(over.must(Bound::at_most(LIMIT_MAX)).rival("away from it", median(free)))?;
    }
    pools.iter().try_for_each(Full::verify)
}

/// A pool, and the expected contents of all its objects.
struct Full {
    /// The approximate number of bytes that the pool holds.
    bytes: u64,
    core: EntryPool,
    rng: Rng,
    /// Random bytes. The contents of each object are a slice of `noise`.
    noise: Vec<u8>,
    /// For each slot, the offset and the length of its object's contents in `noise`. An empty slot
    /// has the length 0. Objects are replaced only in the first `WORKED_ON` slots.
    held: Vec<(u16, u16)>,
}

impl Full {
    fn new(bytes: u64, seed: u64) -> Result<Full, Error> {
        let mut rng = Rng::with_seed(seed);
        let slots = bytes / *LENS[0].start() as u64 + u64::from(WORKED_ON);
        let noise = (0..2 * *LENS[1].end()).map(|_| rng.u8(..)).collect();
        let core = EntryPool::new(zsmalloc::Config::default(), slots, Columns::default())?;
        let held = vec![(0, 0); WORKED_ON as usize];
        let mut full = Full { bytes, core, rng, noise, held };
        full.fill()?;
        Ok(full)
    }

    fn fill(&mut self) -> Result<(), Error> {
        let pages = (self.bytes / page::page_size() as u64) as usize;
        while self.core.pages().used() < pages {
            self.held.push((0, 0));
            self.store(self.held.len() as u32 - 1)?;
        }
        for slot in WORKED_ON..self.held.len() as u32 {
            if self.rng.u32(..HOLES) == 0 {
                self.free(slot);
            }
        }
        (0..WORKED_ON).try_for_each(|slot| self.store(slot))
    }

    /// Stores an object in the empty slot `slot`.
    fn store(&mut self, slot: u32) -> Result<(), Error> {
        let len = self.rng.usize(LENS[usize::from(slot < WORKED_ON)].clone());
        let from = self.rng.usize(..=self.noise.len() - len);
        let staged = self.core.stage(slot, &self.noise[from..from + len])?;
        self.core.lock(slot)?.replace(staged, 0);
        self.held[slot as usize] = (from as u16, len as u16);
        Ok(())
    }

    fn free(&mut self, slot: u32) {
        if let Some(word) = self.core.lock_existing(slot) {
            word.set_payload(0);
        }
        self.held[slot as usize] = (0, 0);
    }

    /// Returns the result of [`churn`](Self::churn) without a limit, and the result at the limit.
    fn churn_twice(&mut self, operations: u64) -> Result<[f64; 2], Error> {
        self.core.pages().set_limit(None);
        let away = self.churn(operations)?;
        self.core.trim();
        self.core.pages().set_limit(Some(self.core.pages().used()));
        Ok([away, self.churn(operations)?])
    }

    /// Frees and stores `operations` objects. Returns the average time in nanoseconds of one free
    /// and one store together.
    fn churn(&mut self, operations: u64) -> Result<f64, Error> {
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| (0..operations).try_for_each(|_| self.replace_one()))?;
        Ok(watch.seconds() * 1e9 / operations as f64)
    }

    /// Frees an object and stores another. If the store fails at the limit, the slot stays empty
    /// until it is chosen again.
    fn replace_one(&mut self) -> Result<(), Error> {
        let slot = self.rng.u32(..WORKED_ON);
        self.free(slot);
        self.store(slot).or_else(|refused| match self.core.pages().limit() {
            Some(_) => Ok(()),
            None => Err(refused),
        })
    }

    /// Compares all objects with their expected contents.
    fn verify(&self) -> Result<(), Error> {
        for (slot, &(from, len)) in (0..).zip(&self.held) {
            let expected = &self.noise[from as usize..][..len as usize];
            let is_it = match self.core.read(slot).content() {
                Content::Object { bytes, .. } => bytes == expected,
                Content::Inline(_) => len == 0,
            };
            if !is_it {
                return Err(Error::Slot { slot });
            }
        }
        Ok(())
    }
}
