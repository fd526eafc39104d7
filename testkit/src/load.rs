//! Several threads use a structure, while other threads compact the structure and change its limit.
//! Between two rounds all threads are idle.

use crate::wait::load;
use fastrand::Rng;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The number of working threads of a round. An entry has at most 6 readers at a time, and each
/// thread pins an entry at most once.
const WORKERS: u64 = 4;
/// The number of operations of each working thread.
const OPERATIONS: usize = 2000;

/// The sizes of objects in a phase, which determine the open size classes.
#[derive(Clone, Debug)]
pub struct Sizes(RangeInclusive<usize>);

impl Sizes {
    /// Draws a narrow or wide range of sizes around a random size. The range ends at or below
    /// `largest`.
    pub fn any(rng: &mut Rng, largest: usize) -> Self {
        let middle = rng.usize(1..=largest);
        let spread = [0, 4, 60, largest / 6, largest][rng.usize(..5)];
        Sizes(middle.saturating_sub(spread).max(1)..=(middle + spread).min(largest))
    }

    pub fn pick(&self, rng: &mut Rng) -> usize {
        rng.usize(self.0.clone())
    }

    /// Returns the smallest and the largest size in one number, to be passed to threads.
    pub fn to_bits(&self) -> u64 {
        (*self.0.start() as u64) << 32 | *self.0.end() as u64
    }

    pub fn from_bits(bits: u64) -> Self {
        Sizes((bits >> 32) as usize..=bits as u32 as usize)
    }
}

/// Signals other threads to stop when this value is dropped, even after a panic.
pub struct Stop<'s>(pub &'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The structure under load. Each read compares the contents.
pub trait Subject: Sync {
    /// Returns the largest size of an object.
    fn largest(&self) -> usize;

    /// Performs a random operation, so that about `filled` of 1000 entries or bins hold an object.
    fn operate(&self, rng: &mut Rng, sizes: &Sizes, filled: usize);

    /// Compacts, shrinks or trims the structure, or reads its statistics.
    fn disturb(&self, rng: &mut Rng);

    fn pages_used(&self) -> usize;

    fn set_limit(&self, pages: Option<usize>);

    /// Returns the number of moved objects, and the number of times that the open classes were
    /// chosen.
    fn moved(&self) -> (u64, u64);

    /// Asserts that the state and the contents are as expected. The caller ensures that no other
    /// thread except the background thread is active.
    fn check(&self);
}

/// Runs one round. In the middle of the round, the size and the number of objects change.
pub fn round(subject: &dyn Subject, rng: &mut Rng) {
    let phases = [(); 2].map(|()| {
        let filled = [1000, 1000, 600, 50, 0][rng.usize(..5)];
        (Sizes::any(rng, subject.largest()), filled)
    });
    let is_limited = rng.u32(..3) == 0;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (mut rng, phases) = (rng.fork(), &phases);
                scope.spawn(move || {
                    for (sizes, filled) in phases {
                        for _ in 0..OPERATIONS / 2 {
                            subject.operate(&mut rng, sizes, *filled);
                        }
                    }
                })
            })
            .collect();
        let (mut disturbing, mut limiting) = (rng.fork(), rng.fork());
        let done = &done;
        scope.spawn(move || {
            while !done.load(Relaxed) {
                subject.disturb(&mut disturbing);
                thread::yield_now();
            }
        });
        if is_limited {
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let used = subject.pages_used();
                    subject.set_limit(Some(limiting.usize(used / 2..=used + used / 4 + 8)));
                    thread::sleep(Duration::from_millis(1));
                }
                subject.set_limit(None);
            });
        }
        // Waits for all workers before it reports a worker's panic, so that the other threads end
        // too.
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a worker found a fault");
    });
}

/// Runs rounds for at least `time`. Continues until many objects were moved, and the open classes
/// were chosen again a few times.
pub fn rounds(subject: &dyn Subject, rng: &mut Rng, time: Duration) {
    let mut count = 0;
    load(
        time,
        || subject.moved() >= (1000, 10),
        || {
            round(subject, rng);
            count += 1;
            if count % 4 == 0 {
                subject.check();
            }
        },
    );
    subject.check();
    let (moved, plans) = subject.moved();
    println!("{count} rounds, {moved} objects moved, {plans} plans");
    assert!(moved > 0 && plans > 0, "nothing moved");
}
