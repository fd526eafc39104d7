//! Counts of readers. A thread that frees memory waits until no reader can still access the memory.
//!
//! ```text
//!   stripe 0: | inside, phase 0 | inside, phase 1 | tally |     a cache line for the threads
//!   stripe 1: | ...                                       |     whose number maps to the stripe
//! ```
//! A reader increments a count before it loads a pointer, and decrements the count when it no
//! longer uses the memory to which the pointer refers. To retire memory, a thread first changes the
//! pointer. The thread then waits until each count has been zero at least once.
//!
//! Invariants:
//! - zs-R1: if `wait` did not see a reader, the reader entered after `wait` had checked the
//!   reader's count. The reader and `wait` access this count by a read-modify-write, so the reader
//!   sees all writes that preceded `wait`.
//! - zs-R2: new readers enter in the phase for which `wait` is not waiting, so a steady stream of
//!   new readers does not delay `wait`. If a reader still enters in the old phase, `wait` waits for
//!   that reader too.
//! - zs-R3: no thread waits while it is counted as a reader, so `wait` is short.

use crate::policy::EPOCH_STRIPES;
use crate::sync::{AtomicU64, Backoff, Ordering, thread_number};

/// A stripe's counts. Stripes are aligned to two cache lines, because the processor fetches
/// adjacent lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    inside: [AtomicU64; 2],
    emptied: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Epoch {
    stripes: [Stripe; EPOCH_STRIPES],
    /// The lowest bit is the phase in which readers enter.
    phase: AtomicU64,
}

/// A reader, which is counted until this guard is dropped.
#[derive(Debug)]
pub(crate) struct EpochGuard<'r>(&'r AtomicU64);

impl Epoch {
    pub(crate) fn new() -> Self {
        let stripe = |_| Stripe {
            inside: [AtomicU64::new(0), AtomicU64::new(0)],
            emptied: AtomicU64::new(0),
        };
        Epoch { stripes: std::array::from_fn(stripe), phase: AtomicU64::new(0) }
    }

    /// Counts the caller as a reader. Memory that the caller reaches by later loads is not freed
    /// until the caller drops the guard.
    pub(crate) fn enter(&self) -> EpochGuard<'_> {
        self.enter_on(thread_number())
    }

    fn enter_on(&self, stripe: usize) -> EpochGuard<'_> {
        let phase = self.phase.load(Ordering::Relaxed) & 1;
        let inside = &self.stripes[stripe % EPOCH_STRIPES].inside[phase as usize];
        inside.fetch_add(1, Ordering::Acquire);
        EpochGuard(inside)
    }

    /// Waits until all readers that were counted at the call have left. The caller must not be a
    /// reader.
    pub(crate) fn wait(&self) {
        let first = self.phase.fetch_xor(1, Ordering::AcqRel) & 1;
        self.wait_for(first);
        self.phase.fetch_xor(1, Ordering::AcqRel);
        self.wait_for(first ^ 1);
    }

    fn wait_for(&self, phase: u64) {
        for stripe in &self.stripes {
            let mut backoff = Backoff::default();
            // The addition of 0 is a read-modify-write, as zs-R1 requires.
            while stripe.inside[phase as usize].fetch_add(0, Ordering::AcqRel) != 0 {
                backoff.wait();
            }
        }
    }

    /// Counts an entry that has become empty. The count is part of the stripe, because this thread
    /// has just used the stripe's cache line.
    pub(crate) fn count_emptied(&self) {
        self.stripes[thread_number() % EPOCH_STRIPES].emptied.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn emptied(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.emptied.load(Ordering::Relaxed)).sum()
    }

    /// Resets the counts of readers in a child of fork, which lacks the readers' threads.
    ///
    /// # Safety
    /// The process is a child of fork, and no other thread of the process is a reader.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn forget_lost(&self) {
        let counts = self.stripes.iter().flat_map(|stripe| &stripe.inside);
        counts.for_each(|inside| inside.store(0, Ordering::Relaxed));
    }
}

impl Drop for EpochGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicPtr, AtomicU32};

    #[test]
    fn lost_readers_hold_up_no_one() {
        let readers = Epoch::new();
        std::mem::forget(readers.enter());
        // SAFETY: no thread is a reader.
        #[allow(unsafe_code)]
        unsafe {
            readers.forget_lost();
        }
        readers.wait();
        readers.count_emptied();
        assert_eq!(readers.emptied(), 1);
    }

    /// A thread waits for the readers and then overwrites the retired value. Readers must not see
    /// the new value.
    #[test]
    fn nothing_is_retired_under_a_reader() {
        const ROUNDS: u32 = 2000;
        let readers = Epoch::new();
        let values: [AtomicU32; 2] = [AtomicU32::new(1), AtomicU32::new(0)];
        let current = AtomicPtr::new((&raw const values[0]).cast_mut());
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while done.load(Ordering::Relaxed) == 0 {
                        let inside = readers.enter();
                        let seen = current.load(Ordering::Acquire).cast_const();
                        let nth = usize::from(!std::ptr::eq(seen, &values[0]));
                        assert_ne!(values[nth].load(Ordering::Relaxed), 0, "retired");
                        drop(inside);
                    }
                });
            }
            for round in 0..ROUNDS {
                let (next, last) = (&values[(round as usize + 1) % 2], &values[round as usize % 2]);
                next.store(1, Ordering::Relaxed);
                current.store((&raw const *next).cast_mut(), Ordering::Release);
                readers.wait();
                last.store(0, Ordering::Relaxed);
            }
            done.store(1, Ordering::Relaxed);
        });
    }
}

/// Loom models, which `make loom` runs.
#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Two places for a value. `current` refers to one place. The place that is not current is
    /// overwritten, as if its memory were reused.
    struct Scene {
        readers: Epoch,
        current: AtomicU64,
        places: [UnsafeCell<u64>; 2],
    }

    fn scene() -> Arc<Scene> {
        let places = [UnsafeCell::new(7), UnsafeCell::new(7)];
        Arc::new(Scene { readers: Epoch::new(), current: AtomicU64::new(0), places })
    }

    fn read(scene: &Scene, stripe: usize) {
        let inside = scene.readers.enter_on(stripe);
        let at = scene.current.load(Ordering::Acquire);
        // SAFETY: the pointer comes from loom's cell, and loom checks the access.
        scene.places[at as usize].with(|place| assert_eq!(unsafe { *place }, 7));
        drop(inside);
    }

    fn retire(scene: &Scene, from: u64) {
        scene.current.store(1 - from, Ordering::Release);
        scene.readers.wait();
        // SAFETY: the pointer comes from loom's cell, and loom checks the access.
        scene.places[from as usize].with_mut(|place| unsafe { *place = 0xdead });
    }

    fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(body);
    }

    #[test]
    fn loom_retire_against_lookup() {
        model(3, || {
            let shared = scene();
            let readers = [0, 1].map(|stripe| {
                let scene = shared.clone();
                thread::spawn(move || read(&scene, stripe))
            });
            retire(&shared, 0);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }

    /// The second wait begins in the other phase, and also waits for a reader that enters late in
    /// the old phase.
    #[test]
    fn loom_retire_twice_against_lookups() {
        model(4, || {
            let shared = scene();
            let other = shared.clone();
            let reader = thread::spawn(move || {
                read(&other, 0);
                read(&other, 0);
            });
            retire(&shared, 0);
            // SAFETY: the pointer comes from loom's cell, and loom checks the access.
            shared.places[0].with_mut(|place| unsafe { *place = 7 });
            retire(&shared, 1);
            reader.join().unwrap();
        });
    }
}
