//! Random objects are replaced one after the other, each by another blob.
//!
//! The set has one more blob than objects. That blob replaces the randomly chosen object,
//! whose own blob is then the spare one. So the stored data change by one blob at a time, and a
//! settled allocator neither needs nor frees pages.

use fastrand::Rng;
use zram::Compaction;

use super::{Job, NAME, ROUNDS};
use crate::Error;
use crate::contents::{Blobs, Contents};
use crate::report::{Bound, Figure, Report};
use crate::stores::{Glibc, HeapStore, Kept, PoolStore, Store, StoreKind};
#[cfg(feature = "rivals")]
use crate::stores::{Jemalloc, Mimalloc};
use crate::turns::{Side, rounds, scaling};

/// The number of live objects.
const OBJECTS: u32 = 100_000;
/// The average number of replacements of each object before the measurement. After them, no object
/// is left in a size class chosen while the pool was filled and its classes still changed.
const WARM_UP: u64 = 15;
const WHAT: &str = "store and free";

/// A store, and the spare blob.
struct Replace<'b, S> {
    kept: Kept<'b, S, Blobs>,
    left: u32,
    rng: Rng,
}

impl<'b, S: Store + 'b> Replace<'b, S> {
    fn boxed(
        blobs: &'b Blobs,
        seed: u64,
        make: impl FnOnce(u32) -> Result<S, Error>,
    ) -> Result<Box<dyn Side + 'b>, Error> {
        let mut kept = Kept::new(blobs, make)?;
        let left = blobs.len() - 1;
        (0..left).try_for_each(|slot| kept.put(slot, slot))?;
        let mut side = Replace { kept, left, rng: Rng::with_seed(seed) };
        side.turn(WARM_UP * u64::from(left))?;
        Ok(Box::new(side))
    }
}

impl<S: Store> Side for Replace<'_, S> {
    fn turn(&mut self, operations: u64) -> Result<u64, Error> {
        // The last slot stays empty.
        let slots = self.kept.slots() - 1;
        for _ in 0..operations {
            let slot = self.rng.u32(0..slots);
            let left = self.kept.content(slot);
            self.kept.put(slot, self.left)?;
            self.left = left.unwrap_or(self.left);
        }
        Ok(u64::from(self.left))
    }

    fn verify(&self) -> Result<(), Error> {
        self.kept.verify()
    }
}

/// Returns the pool's side, and the sides of those `rivals` that are built in.
fn sides<'b>(
    blobs: &'b Blobs,
    seed: u64,
    pool: &PoolStore,
    rivals: &[StoreKind],
) -> Result<Vec<Box<dyn Side + 'b>>, Error> {
    let mut sides = vec![Replace::boxed(blobs, seed, |slots| Ok(pool.beside(slots)))?];
    for rival in rivals {
        sides.push(match rival {
            StoreKind::Glibc => {
                Replace::boxed(blobs, seed, |slots| Ok(HeapStore::<Glibc>::new(slots)))?
            }
            #[cfg(feature = "rivals")]
            StoreKind::Jemalloc => {
                Replace::boxed(blobs, seed, |slots| Ok(HeapStore::<Jemalloc>::new(slots)))?
            }
            #[cfg(feature = "rivals")]
            StoreKind::Mimalloc => {
                Replace::boxed(blobs, seed, |slots| Ok(HeapStore::<Mimalloc>::new(slots)))?
            }
            other => Replace::boxed(blobs, seed, |slots| other.make(slots))?,
        });
    }
    Ok(sides)
}

fn here(rivals: &[StoreKind]) -> (Vec<StoreKind>, Vec<&'static str>) {
    let rivals: Vec<_> = rivals.iter().copied().filter(|kind| kind.is_here()).collect();
    let names = [StoreKind::Pool].iter().chain(&rivals).map(|kind| kind.name()).collect();
    (rivals, names)
}

pub(super) fn run(job: &Job, report: &mut Report<'_>) -> Result<(), Error> {
    one_thread(job, report)?;
    two_threads(job, report)
}

fn one_thread(job: &Job, report: &mut Report<'_>) -> Result<(), Error> {
    let blobs = job.blobs.taken(OBJECTS + 1);
    let (rivals, names) = here(&StoreKind::RIVALS);
    let pool = PoolStore::new(0, Compaction::Off)?;
    let mut sides = sides(&blobs, job.seed, &pool, &rivals)?;
    let before = pool.pages_used();
    let seconds = rounds(&mut sides, ROUNDS, job.operations)?;
    let changed = pool.pages_used().abs_diff(before);
    job.report_times(WHAT, &names, 1, StoreKind::Mimalloc.name(), &seconds, report)?;
    let pages =
        Figure::new(NAME, format!("{WHAT}/pages committed or released"), changed as f64, "pages");
    report.add(pages.must(Bound::equal(0.0)))
}

/// Measures two threads, each with half of the objects, on one shared pool.
fn two_threads(job: &Job, report: &mut Report<'_>) -> Result<(), Error> {
    let blobs = job.blobs.taken(OBJECTS / 2 + 1);
    let (rivals, names) = here(&[StoreKind::Mimalloc]);
    let pool = PoolStore::new(0, Compaction::Off)?;
    let scales = scaling(names.len(), ROUNDS, job.operations, |index| {
        sides(&blobs, job.seed + index as u64, &pool.beside(0), &rivals)
    })?;
    job.report_scaling(WHAT, &names, 1, &scales, report)
}
