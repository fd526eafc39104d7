//! Pools of several sizes at their limits. The time of a free and a store at the limit is compared
//! with the time below it and with the time in smaller pools. The time of compaction is reported
//! too.

use std::ops::RangeInclusive;

use fastrand::Rng;
use measure::clock::{Clock, Stopwatch};
use zsmalloc::{Columns, Content, EntryPool};

use super::{Cost, Job, NAME, ROUNDS, SMALL, median, report_growth, told};
use crate::Error;
use crate::report::{Bound, Figure, Report};
use crate::size::GIB;
use crate::summary::quantile;

/// The number of objects that are replaced. It is the same in every pool, so that all pools use the
/// processor's caches equally.
const WORKED_ON: u32 = 32_768;
/// One of `HOLES` other objects is freed at random, so that most zspages are partly filled.
const HOLES: u32 = 16;
/// The lengths of the objects that are never replaced, and of the objects that are replaced. The
/// two belong to different size classes, so replaced objects do not fill the holes between the
/// others.
const LENS: [RangeInclusive<usize>; 2] = [200..=1900, 2000..=3800];
/// The maximum time of a store at the limit, relative to the time of a store below the limit.
const LIMIT_MAX: f64 = 1.3;
/// The share of the stores that must be fast, and the maximum time of a store among them in
/// microseconds.
const SHARE: f64 = 0.9999;
const SLOWEST_MAX: f64 = 100.0;

pub(super) fn run(job: &Job, report: &mut Report<'_>) -> Result<(), Error> {
    // The requested size may be smaller than the small sizes.
    let sizes: Vec<u64> = SMALL.into_iter().filter(|&small| small < job.stored).collect();
    let small = sizes.len();
    let sizes = sizes.into_iter().chain([job.stored]);
    let mut pools = sizes.map(|bytes| Full::new(bytes, job.seed)).collect::<Result<Vec<_>, _>>()?;
    let cost = |pool: &Full| Cost::new(told(pool.bytes));
    let mut limited: Vec<_> = pools.iter().map(cost).collect();
    let mut free: Vec<_> = pools.iter().map(cost).collect();
    let mut each: Vec<Vec<f64>> = vec![Vec::new(); pools.len()];
    let mut each_away = each.clone();
    // The first round warms up.
    for round in 0..=ROUNDS {
        for place in 0..pools.len() {
            let nth = (place + round) % pools.len();
            let pool = &mut pools[nth];
            pool.core.pages().set_limit(None);
            let away = pool.churn(job.operations)?;
            let one_by_one_away = pool.churn_one_by_one(job.operations)?;
            pool.core.trim();
            pool.core.pages().set_limit(Some(pool.core.pages().used()));
            let at_limit = pool.churn(job.operations)?;
            let one_by_one = pool.churn_one_by_one(job.operations)?;
            if round > 0 {
                free[nth].nanoseconds.push(away);
                limited[nth].nanoseconds.push(at_limit);
                each[nth].extend(one_by_one);
                each_away[nth].extend(one_by_one_away);
            }
        }
    }
    report_growth("a free and a store at the limit, by what is stored", &limited, small, report)?;
    report_growth("the same away from the limit", &free, small, report)?;
    let each = each.iter_mut().zip(&mut each_away);
    for (((pool, limited), free), (each, away)) in pools.iter().zip(&limited).zip(&free).zip(each) {
        let at = &limited.at;
        let over = Figure::new(
            NAME,
            format!("at the limit over away from it/{at}"),
            limited.over(free),
            "",
        );
        report.add(
            over.must(Bound::at_most(LIMIT_MAX)).rival("away from it", median(&free.nanoseconds)),
        )?;
        // The machine itself causes part of this time, so the time without a limit is reported
        // beside it.
        let [slowest, slowest_away] =
            [each, away].map(|each| quantile(each, SHARE).unwrap_or(f64::NAN) / 1e3);
        let figure =
            Figure::new(NAME, format!("the slowest 0.01% at the limit/{at}"), slowest, "us");
        report.add(figure.must(Bound::at_most(SLOWEST_MAX)).rival("away from it", slowest_away))?;
        let refused = pool.refused as f64 / pool.tried as f64 * 100.0;
        report.add(Figure::new(NAME, format!("stores refused at the limit/{at}"), refused, "%"))?;
    }
    for pool in &mut pools {
        pool.verify()?;
        let seconds = pool.compact()?;
        report.add(Figure::new(
            NAME,
            format!("compaction per GiB/{}", told(pool.bytes)),
            seconds,
            "s",
        ))?;
        pool.verify()?;
    }
    Ok(())
}

/// A pool with the expected contents of all objects.
struct Full {
    /// The approximate number of bytes that the pool holds.
    bytes: u64,
    core: EntryPool,
    rng: Rng,
    /// The noise from which all objects are cut.
    noise: Vec<u8>,
    /// The offset in the noise and the length of each slot's object; the length is 0 if the slot is
    /// empty. The first slots are those that are replaced.
    held: Vec<(u16, u16)>,
    tried: u64,
    refused: u64,
}

impl Full {
    fn new(bytes: u64, seed: u64) -> Result<Full, Error> {
        let mut rng = Rng::with_seed(seed);
        let slots = bytes / *LENS[0].start() as u64 + u64::from(WORKED_ON);
        let noise = (0..2 * *LENS[1].end()).map(|_| rng.u8(..)).collect();
        let core = EntryPool::new(zsmalloc::Config::default(), slots, Columns::default())?;
        let held = vec![(0, 0); WORKED_ON as usize];
        let mut full = Full { bytes, core, rng, noise, held, tried: 0, refused: 0 };
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

    /// Frees and stores `operations` objects. Returns the average time in nanoseconds of a free and
    /// a store.
    fn churn(&mut self, operations: u64) -> Result<f64, Error> {
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| (0..operations).try_for_each(|_| self.replace_one()))?;
        Ok(watch.seconds() * 1e9 / operations as f64)
    }

    /// Like `churn`, but times each pair alone. This takes twice as long, because the clock is read
    /// for each pair.
    fn churn_one_by_one(&mut self, operations: u64) -> Result<Vec<f64>, Error> {
        let each = (0..operations).map(|_| {
            let mut watch = Stopwatch::new(Clock::ThreadCpu);
            watch.time(|| self.replace_one()).map(|()| watch.seconds() * 1e9)
        });
        each.collect()
    }

    /// Frees an object and stores another. If the store fails at the limit, the slot stays empty
    /// until it is chosen again.
    fn replace_one(&mut self) -> Result<(), Error> {
        let is_limited = self.core.pages().limit().is_some();
        let slot = self.rng.u32(..WORKED_ON);
        self.free(slot);
        let stored = self.store(slot);
        self.tried += u64::from(is_limited);
        if stored.is_err() && is_limited {
            self.refused += 1;
            return Ok(());
        }
        stored
    }

    /// Frees half of all objects. Returns the seconds that compaction then needs per GiB.
    fn compact(&mut self) -> Result<f64, Error> {
        self.core.pages().set_limit(None);
        for slot in 0..self.held.len() as u32 {
            if self.rng.bool() {
                self.free(slot);
            }
        }
        self.core.trim();
        let gibibytes = (self.core.pages().used() * page::page_size()) as f64 / GIB as f64;
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| self.core.compact());
        Ok(watch.seconds() / gibibytes)
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
