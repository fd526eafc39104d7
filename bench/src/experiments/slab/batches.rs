//! Batches of objects are allocated and freed in random order, by the same thread or by another.
//!
//! Each object is filled after its allocation and read before it is freed, as a program would do.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use fastrand::Rng;
use measure::clock::Clock;

use super::{Request, SIZES, figure, kinds, median};
use crate::Error;
use crate::objects::{Object, ObjectKind, Objects, Visit};
use crate::report::{Bound, Figure, Report};
use crate::stores::StoreKind;
use crate::turns::{Side, rounds_by};

const BATCH: usize = 1000;
const ROUNDS: usize = 9;
/// The number of objects of a turn by default.
const OPERATIONS: u64 = 200_000;
/// The maximum time relative to the best rival's time.
const SAME_MAX: f64 = 1.1;
const OTHER_MAX: f64 = 1.3;

#[derive(Clone, Copy)]
enum Freed {
    BySame,
    ByOther,
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let operations = request.operations.unwrap_or(OPERATIONS).max(BATCH as u64);
    for (freed, what, most, clock) in [
        // Processor time excludes the machine's other load, which suits the work of one thread.
        (Freed::BySame, "one thread", SAME_MAX, Clock::ThreadCpu),
        (Freed::ByOther, "freed by another thread", OTHER_MAX, Clock::Wall),
    ] {
        for size in SIZES {
            let make = |kind: ObjectKind| kind.visit(size, Boxed { freed, seed: request.seed });
            let mut sides = kinds().into_iter().map(make).collect::<Result<Vec<_>, _>>()?;
            let seconds = rounds_by(clock, &mut sides, ROUNDS, operations)?;
            tell(&format!("{what}/{size} bytes"), most, operations, &seconds, report)?;
        }
    }
    Ok(())
}

/// Reports the nanoseconds per object of every side, and the ratio of the first side, which is
/// uzram's, to the best rival.
fn tell(
    what: &str,
    most: f64,
    operations: u64,
    seconds: &[Vec<f64>],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let times: Vec<f64> = seconds.iter().map(|row| median(row) * 1e9 / operations as f64).collect();
    for (kind, time) in kinds().into_iter().zip(&times) {
        report.add(figure(format!("{what}/{}", kind.name()), *time, "ns"))?;
    }
    let rivals = kinds().into_iter().zip(seconds).zip(&times).skip(1);
    let best = rivals.min_by(|a, b| a.1.total_cmp(b.1));
    let told = format!("{what}/our cache over the best");
    if kinds().len() < ObjectKind::ALL.len() {
        let missing = Figure::missing(super::NAME, told, "").must(Bound::at_most(most));
        return report.add(missing.rival_absent(StoreKind::ABSENT));
    }
    let Some(((kind, row), time)) = best else { return Ok(()) };
    let ratios: Vec<f64> = seconds[0].iter().zip(row).map(|(ours, best)| ours / best).collect();
    let over = figure(told, median(&ratios), "").must(Bound::at_most(most));
    report.add(over.rival(kind.name(), *time))
}

struct Boxed {
    freed: Freed,
    seed: u64,
}

impl Visit for Boxed {
    type Out = Box<dyn Side>;

    fn visit(self, objects: impl Objects + 'static) -> Result<Self::Out, Error> {
        let mut order: Vec<usize> = (0..BATCH).collect();
        Rng::with_seed(self.seed).shuffle(&mut order);
        Ok(match self.freed {
            Freed::BySame => Box::new(Same { objects, order, batch: empty() }),
            Freed::ByOther => Box::new(Other::new(objects, order)),
        })
    }
}

type Batch = Vec<Option<Object>>;

fn empty() -> Batch {
    (0..BATCH).map(|_| None).collect()
}

fn take(objects: &impl Objects, batch: &mut Batch) -> Result<(), Error> {
    let size = objects.size();
    for (nth, place) in batch.iter_mut().enumerate() {
        *place = Some(objects.alloc(size, nth as u8)?);
    }
    Ok(())
}

fn free(objects: &impl Objects, batch: &mut Batch, order: &[usize]) -> Result<u64, Error> {
    let mut sum = 0;
    for &nth in order {
        if let Some(object) = batch[nth].take() {
            sum += objects.look(&object);
            objects.free(object)?;
        }
    }
    Ok(sum)
}

struct Same<O> {
    objects: O,
    order: Vec<usize>,
    batch: Batch,
}

impl<O: Objects> Side for Same<O> {
    fn turn(&mut self, operations: u64) -> Result<u64, Error> {
        let mut sum = 0;
        for _ in 0..operations / BATCH as u64 {
            take(&self.objects, &mut self.batch)?;
            sum += free(&self.objects, &mut self.batch, &self.order)?;
        }
        Ok(sum)
    }

    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A side whose batches are freed by another thread and returned empty.
struct Other<O> {
    objects: Arc<O>,
    full: Option<SyncSender<Batch>>,
    emptied: Receiver<(Batch, Result<u64, Error>)>,
    thread: Option<JoinHandle<()>>,
}

/// The number of batches in transit.
const UNDER_WAY: usize = 4;

impl<O: Objects + 'static> Other<O> {
    fn new(objects: O, order: Vec<usize>) -> Self {
        let objects = Arc::new(objects);
        let (full, arriving) = sync_channel::<Batch>(UNDER_WAY);
        let (back, emptied) = sync_channel(UNDER_WAY);
        let theirs = objects.clone();
        let thread = std::thread::spawn(move || {
            for mut batch in arriving {
                let sum = free(&*theirs, &mut batch, &order);
                if back.send((batch, sum)).is_err() {
                    return;
                }
            }
        });
        Other { objects, full: Some(full), emptied, thread: Some(thread) }
    }
}

impl<O: Objects + 'static> Side for Other<O> {
    fn turn(&mut self, operations: u64) -> Result<u64, Error> {
        let gone = || Error::Setup {
            reason: "the other thread has ended".into(),
            remedy: "mend what its message on standard error names",
        };
        let Some(full) = &self.full else { return Err(gone()) };
        let batches = operations as usize / BATCH;
        let mut sum = 0;
        for sent in 0..batches + UNDER_WAY {
            let mut batch = empty();
            if sent >= UNDER_WAY.min(batches) && sent - UNDER_WAY.min(batches) < batches {
                let (back, seen) = self.emptied.recv().map_err(|_| gone())?;
                (batch, sum) = (back, sum + seen?);
            }
            if sent < batches {
                take(&*self.objects, &mut batch)?;
                full.send(batch).map_err(|_| gone())?;
            }
        }
        Ok(sum)
    }

    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl<O> Drop for Other<O> {
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take() {
            // The panic's message was printed on standard error.
            let _ = thread.join();
        }
    }
}
