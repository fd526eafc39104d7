//! One thread reads while another frees and stores other objects, so that compaction always runs.
//! The figures are the slowest reads relative to the same work without compaction, and the number
//! of reads that waited for a mover.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use fastrand::Rng;
use measure::page::PAGE_SIZE;
use zram::Compaction;

use super::Request;
use crate::Error;
use crate::contents::{Blobs, Contents};
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;
use crate::stores::{Compacted, DeviceStore, Kept, PoolStore, settle};
use crate::summary::{Summary, quantile};

const NAME: &str = "pause";
/// The bytes of the input that are used by default.
const LIMIT: u64 = 512 * MIB;
const PAIRS: usize = 7;
/// The reads of a turn by default.
const READS: u64 = 300_000;
/// The quantile of the reads' times that is compared.
const SHARE: f64 = 0.999;
/// The maximum time of reads with compaction, relative to the time without compaction.
const PAUSE_MAX: f64 = 1.5;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let reads = request.operations.unwrap_or(READS);
    for input in request.inputs(&[Input::Source]) {
        let pages = request.whole(input)?.capped(request.limit.unwrap_or(LIMIT)).load()?;
        let pause = Pause { what: "pool", seed: request.seed, reads };
        let blobs = Blobs::of_pages(&pages)?.filled();
        let pool = |slots, compaction| {
            let store = PoolStore::new(slots, compaction)?;
            Ok((store.beside(slots), store))
        };
        pause.run(&blobs, pool, report)?;
        let pause = Pause { what: "device", ..pause };
        let device = |slots, compaction| {
            let store = DeviceStore::new(2 * slots, compaction)?;
            Ok((store.from_slot(slots), store))
        };
        pause.run(&pages, device, report)?;
    }
    Ok(())
}

struct Pause {
    what: &'static str,
    seed: u64,
    reads: u64,
}

/// Two tables of one store: one of objects that are only read, and one of objects that are replaced
/// at the same time.
struct Scene<'c, S, C> {
    still: Kept<'c, S, C>,
    moving: Kept<'c, S, C>,
}

impl Pause {
    fn run<S: Compacted + Send + Sync, C: Contents + Sync>(
        &self,
        contents: &C,
        make: impl Fn(u32, Compaction) -> Result<(S, S), Error>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let scene = |compaction| Scene::new(contents, |slots| make(slots, compaction));
        let (mut on, mut off) = (scene(Compaction::Auto)?, scene(Compaction::Off)?);
        let (mut slow_on, mut slow_off, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The first pair warms up.
        for pair in 0..=PAIRS as u64 {
            let rng = Rng::with_seed(self.seed.wrapping_add(pair));
            let mut with = on.turn(rng.clone(), self.reads)?;
            // Waits until compaction has finished, so that it does not disturb the other side's
            // turn.
            settle();
            let mut without = off.turn(rng, self.reads)?;
            let slow = (quantile(&mut with, SHARE), quantile(&mut without, SHARE));
            if let ((Some(with), Some(without)), true) = (slow, pair > 0) {
                slow_on.push(with * 1e6);
                slow_off.push(without * 1e6);
                ratios.push(with / without);
            }
        }
        self.figures(&on, [&slow_on, &slow_off, &ratios], report)?;
        on.verify()?;
        off.verify()
    }

    fn figures<S: Compacted, C: Contents>(
        &self,
        on: &Scene<'_, S, C>,
        [slow_on, slow_off, ratios]: [&[f64]; 3],
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let median = |values| Summary::of(values).map_or(f64::NAN, |summary| summary.median);
        let named = |figure: &str| format!("{}/{figure}", self.what);
        let pause = Figure::new(NAME, named("99.9% of reads within"), median(slow_on), "us");
        report.add(pause.rival("without compaction", median(slow_off)))?;
        let ratio = named("99.9% of reads within, compacting over not");
        let ratio = Figure::new(NAME, ratio, median(ratios), "");
        report.add(ratio.must(Bound::at_most(PAUSE_MAX)))?;
        let waits = on.still.store().read_waits() as f64;
        let waits = Figure::new(NAME, named("reads that waited"), waits, "reads");
        report.add(waits.must(Bound::equal(0.0)))?;
        // If no object had moved, the experiment would have measured nothing.
        let moved = on.still.store().compaction().moved_objects as f64;
        let moved = Figure::new(NAME, named("objects moved meanwhile"), moved, "objects");
        report.add(moved.must(Bound::above(0.0)))
    }
}

impl<'c, S: Compacted + Send + Sync, C: Contents + Sync> Scene<'c, S, C> {
    /// Stores objects of both tables alternately, so that they share zspages.
    fn new(
        contents: &'c C,
        make: impl FnOnce(u32) -> Result<(S, S), Error>,
    ) -> Result<Scene<'c, S, C>, Error> {
        let (still, moving) = make(contents.len())?;
        let mut still = Kept::new(contents, |_| Ok(still))?;
        let mut moving = Kept::new(contents, |_| Ok(moving))?;
        for slot in 0..contents.len() {
            still.put(slot, slot)?;
            moving.put(slot, slot)?;
        }
        Ok(Scene { still, moving })
    }

    /// Returns the seconds of every read.
    fn turn(&mut self, mut rng: Rng, reads: u64) -> Result<Vec<f64>, Error> {
        let (still, moving, done) = (&self.still, &mut self.moving, AtomicBool::new(false));
        let mut other = rng.fork();
        thread::scope(|scope| {
            let mover = scope.spawn(|| {
                while !done.load(Relaxed) {
                    stir(moving, &mut other, &done)?;
                }
                moving.fill()
            });
            let times = (0..reads).map(|_| read(still, &mut rng)).collect();
            done.store(true, Relaxed);
            let stirred = mover.join().unwrap_or_else(|_| {
                Err(Error::Setup {
                    reason: "the thread beside the reader panicked".into(),
                    remedy: "mend what its message on standard error names",
                })
            });
            stirred.and(times)
        })
    }

    fn verify(&self) -> Result<(), Error> {
        self.still.verify()?;
        self.moving.verify()
    }
}

/// Frees every slot and stores random contents again, both in random order. Stops early if `done`
/// is set.
fn stir<S: Compacted, C: Contents>(
    moving: &mut Kept<'_, S, C>,
    rng: &mut Rng,
    done: &AtomicBool,
) -> Result<(), Error> {
    let mut order: Vec<u32> = (0..moving.slots()).collect();
    rng.shuffle(&mut order);
    let each = |work: &mut dyn FnMut(u32) -> Result<(), Error>| {
        order.iter().take_while(|_| !done.load(Relaxed)).try_for_each(|&slot| work(slot))
    };
    each(&mut |slot| moving.drop_slot(slot))?;
    each(&mut |slot| moving.put(slot, rng.u32(0..moving.slots())))
}

/// Returns the seconds of the read of a random slot, whose contents are then verified.
fn read<S: Compacted, C: Contents>(still: &Kept<'_, S, C>, rng: &mut Rng) -> Result<f64, Error> {
    let mut out = [0; PAGE_SIZE];
    let slot = rng.u32(0..still.slots());
    let begun = Instant::now();
    let len = still.store().read(slot, &mut out)?;
    let seconds = begun.elapsed().as_secs_f64();
    still.compare(slot, &out[..len])?;
    Ok(seconds)
}
