//! Several ways to do the same work, in turns: on one thread, and on two relative to one.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;

use measure::clock::{Clock, Stopwatch};

use crate::Error;
use crate::threads::together;

/// One way to do the work.
pub trait Side {
    /// Executes `operations` operations. The answer is the same for all sides that were created in
    /// the same way.
    fn turn(&mut self, operations: u64) -> Result<u64, Error>;

    /// Verifies the side's contents after all turns.
    fn verify(&self) -> Result<(), Error>;
}

/// The sides that take turns.
pub type Sides<'a> = [Box<dyn Side + 'a>];

/// Returns the seconds of every side, round by round. The first round warms up and is not included.
/// Another side is first in each round.
pub fn rounds(
    sides: &mut Sides<'_>,
    rounds: usize,
    operations: u64,
) -> Result<Vec<Vec<f64>>, Error> {
    rounds_by(Clock::Wall, sides, rounds, operations)
}

/// Like [`rounds`], with another clock.
pub fn rounds_by(
    clock: Clock,
    sides: &mut Sides<'_>,
    rounds: usize,
    operations: u64,
) -> Result<Vec<Vec<f64>>, Error> {
    let mut seconds = vec![Vec::new(); sides.len()];
    for round in 0..=rounds {
        let mut expected = None;
        for place in 0..sides.len() {
            let side = (place + round) % sides.len();
            let mut watch = Stopwatch::new(clock);
            let found = watch.time(|| sides[side].turn(operations))?;
            if round > 0 {
                seconds[side].push(watch.seconds());
            }
            let expected = *expected.get_or_insert(found);
            if found != expected {
                return Err(Error::Answer { side: letter(side), expected, found });
            }
        }
    }
    sides.iter().try_for_each(|side| side.verify())?;
    Ok(seconds)
}

/// Returns the throughput of two threads relative to one, for every side and round. `make` creates
/// the `count` sides of a thread. Both threads exist during all rounds, so that the per-thread
/// caches of an allocator remain.
pub fn scaling<'a>(
    count: usize,
    rounds: usize,
    operations: u64,
    make: impl Fn(usize) -> Result<Vec<Box<dyn Side + 'a>>, Error> + Sync,
) -> Result<Vec<Vec<f64>>, Error> {
    let (barrier, scales) = (Barrier::new(2), Mutex::new(vec![Vec::new(); count]));
    together(2, |index| {
        // A thread that failed still waits at every barrier, because otherwise the other one would
        // block forever.
        let mut sides = make(index);
        for round in 0..=rounds {
            for place in 0..count {
                let side = (place + round) % count;
                let seconds = [1, 2].map(|threads| {
                    barrier.wait();
                    let begun = Instant::now();
                    if index < threads {
                        turn(&mut sides, side, operations);
                    }
                    barrier.wait();
                    begun.elapsed().as_secs_f64()
                });
                if index == 0 && round > 0 {
                    let mut scales = scales.lock().unwrap_or_else(PoisonError::into_inner);
                    scales[side].push(2.0 * seconds[0] / seconds[1]);
                }
            }
        }
        sides.and_then(|sides| sides.iter().try_for_each(|side| side.verify()))
    })?;
    Ok(scales.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn turn<'a>(sides: &mut Result<Vec<Box<dyn Side + 'a>>, Error>, side: usize, operations: u64) {
    let Ok(here) = sides else { return };
    if let Err(error) = here[side].turn(operations) {
        *sides = Err(error);
    }
}

fn letter(side: usize) -> char {
    char::from(b'A' + side as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counts(u64);

    impl Side for Counts {
        fn turn(&mut self, operations: u64) -> Result<u64, Error> {
            self.0 += operations;
            std::hint::black_box(
                (0..operations).fold(0, |sum: u64, n| std::hint::black_box(sum ^ n)),
            );
            Ok(self.0)
        }

        fn verify(&self) -> Result<(), Error> {
            Ok(())
        }
    }

    struct Fails;

    impl Side for Fails {
        fn turn(&mut self, _: u64) -> Result<u64, Error> {
            Err(Error::Slot { slot: 3 })
        }

        fn verify(&self) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn every_side_has_every_round() {
        let mut sides: Vec<Box<dyn Side>> = vec![Box::new(Counts(0)), Box::new(Counts(0))];
        let seconds = rounds(&mut sides, 7, 1000).unwrap();
        assert!(seconds.iter().all(|side| side.len() == 7));
        let mut unlike: Vec<Box<dyn Side>> = vec![Box::new(Counts(0)), Box::new(Counts(1))];
        assert!(matches!(rounds(&mut unlike, 7, 10), Err(Error::Answer { side: 'B', .. })));
    }

    #[test]
    fn two_threads_do_up_to_twice_as_much() {
        let make = |_| -> Result<Vec<Box<dyn Side>>, Error> { Ok(vec![Box::new(Counts(0))]) };
        let scales = scaling(1, 5, 100_000, make).unwrap();
        assert!(scales[0].len() == 5 && scales[0].iter().all(|scale| *scale > 0.0));
    }

    #[test]
    fn a_side_that_fails_ends_both_threads() {
        let make = |index| -> Result<Vec<Box<dyn Side>>, Error> {
            if index == 0 { Err(Error::Slot { slot: 4 }) } else { Ok(vec![Box::new(Fails)]) }
        };
        assert!(scaling(1, 5, 10, make).is_err());
    }
}
