//! Two ways to do the same work, timed in turns, so that a disturbance of the machine affects both.

use measure::clock::{Clock, Stopwatch};

use crate::Error;
use crate::summary::Summary;

/// The smallest number of pairs for a median of ratios.
pub const PAIRS_MIN: usize = 5;

/// The rule by which the sides' answers are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Both sides must always return the same answer.
    Equal,
    /// Each side must return the answer that it returned the first time.
    Stable,
}

/// The settings of a measurement in pairs.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The number of pairs after the one that warms up; at least [`PAIRS_MIN`].
    pub pairs: usize,
    /// The clock.
    pub clock: Clock,
    /// The rule for the answers.
    pub answers: Answers,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { pairs: PAIRS_MIN, clock: Clock::Wall, answers: Answers::Equal }
    }
}

/// The seconds of each side, and their ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// The seconds of side A.
    pub a: Summary,
    /// The seconds of side B.
    pub b: Summary,
    /// The ratio of A's seconds to B's, pair by pair. It is above 1 if B is faster.
    pub ratio: Summary,
}

/// Times both sides as a whole, in turns. Each returns its answer: bytes processed, or a checksum.
pub fn pair(
    plan: Plan,
    mut a: impl FnMut() -> Result<u64, Error>,
    mut b: impl FnMut() -> Result<u64, Error>,
) -> Result<Paired, Error> {
    pair_parts(plan, |watch| watch.time(&mut a), |watch| watch.time(&mut b))
}

/// Times the work that each side passes to its watch. Its preparation and verification are not
/// timed.
pub fn pair_parts(
    plan: Plan,
    mut a: impl FnMut(&mut Stopwatch) -> Result<u64, Error>,
    mut b: impl FnMut(&mut Stopwatch) -> Result<u64, Error>,
) -> Result<Paired, Error> {
    if plan.pairs < PAIRS_MIN {
        let reason = format!("{} pairs are too few", plan.pairs);
        return Err(Error::Setup { reason, remedy: "measure at least 5 pairs" });
    }
    let (_, answer_a) = one(plan, &mut a)?;
    let expected_b = match plan.answers {
        Answers::Equal => Some(answer_a),
        Answers::Stable => None,
    };
    let (_, answer_b) = one(plan, &mut b)?;
    verify('B', expected_b.unwrap_or(answer_b), answer_b)?;
    let (mut seconds_a, mut seconds_b) = (Vec::new(), Vec::new());
    for round in 0..plan.pairs {
        // The first side changes the contents of the caches for the second, so the sides also take
        // turns at being first.
        let (first, second) = if round % 2 == 0 { ('A', 'B') } else { ('B', 'A') };
        for side in [first, second] {
            let (seconds, answer, expected, row) = if side == 'A' {
                let (seconds, answer) = one(plan, &mut a)?;
                (seconds, answer, answer_a, &mut seconds_a)
            } else {
                let (seconds, answer) = one(plan, &mut b)?;
                (seconds, answer, answer_b, &mut seconds_b)
            };
            verify(side, expected, answer)?;
            row.push(seconds);
        }
    }
    paired(&seconds_a, &seconds_b)
}

/// Returns the summary of times that were measured in pairs.
pub fn paired(seconds_a: &[f64], seconds_b: &[f64]) -> Result<Paired, Error> {
    let setup = |reason: &str| Error::Setup {
        reason: reason.into(),
        remedy: "time work that takes milliseconds or more",
    };
    if seconds_a.len() != seconds_b.len() {
        return Err(setup("the sides were not measured in pairs"));
    }
    if seconds_a.iter().chain(seconds_b).any(|&seconds| seconds <= 0.0) {
        return Err(setup("a side took no time at all"));
    }
    let ratios: Vec<f64> = seconds_a.iter().zip(seconds_b).map(|(a, b)| a / b).collect();
    match (Summary::of(seconds_a), Summary::of(seconds_b), Summary::of(&ratios)) {
        (Some(a), Some(b), Some(ratio)) => Ok(Paired { a, b, ratio }),
        _ => Err(setup("no pair was measured")),
    }
}

fn one(
    plan: Plan,
    side: &mut impl FnMut(&mut Stopwatch) -> Result<u64, Error>,
) -> Result<(f64, u64), Error> {
    let mut watch = Stopwatch::new(plan.clock);
    let answer = side(&mut watch)?;
    Ok((watch.seconds(), answer))
}

fn verify(side: char, expected: u64, found: u64) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Answer { side, expected, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::hint::black_box;

    fn spin(rounds: u64) -> u64 {
        (0..rounds).fold(1, |sum: u64, round| black_box(sum.wrapping_mul(31).wrapping_add(round)))
    }

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_ratios() {
        let paired = paired(&[1.0, 2.0, 9.0], &[2.0, 1.0, 3.0]).unwrap();
        assert_eq!(paired.a.median, 2.0);
        assert_eq!(paired.b.median, 2.0);
        assert_eq!(paired.ratio, Summary { median: 2.0, min: 0.5, max: 3.0 });
    }

    #[test]
    fn sides_take_turns_after_one_warm_up() {
        let order = RefCell::new(String::new());
        let side = |name: char| {
            order.borrow_mut().push(name);
            black_box(spin(1000));
            Ok(1)
        };
        pair(Plan::default(), || side('A'), || side('B')).unwrap();
        assert_eq!(order.into_inner(), "ABABBAABBAAB");
    }

    #[test]
    fn both_clocks_see_twice_the_work() {
        for clock in [Clock::Wall, Clock::ThreadCpu] {
            let plan = Plan { pairs: 7, clock, answers: Answers::Stable };
            let paired = pair(plan, || Ok(spin(4_000_000)), || Ok(spin(1_000_000))).unwrap();
            assert!(paired.ratio.median > 1.5, "{clock:?}: {paired:?}");
        }
    }

    #[test]
    fn wrong_answers_and_empty_timings_are_errors() {
        let differing = pair(Plan::default(), || Ok(1), || Ok(2)).unwrap_err();
        assert!(
            matches!(differing, Error::Answer { side: 'B', expected: 1, found: 2 }),
            "{differing}"
        );
        let mut calls = 0;
        let drifting = pair(
            Plan::default(),
            || {
                calls += 1;
                Ok(calls)
            },
            || Ok(1),
        );
        assert!(matches!(drifting, Err(Error::Answer { side: 'A', .. })));
        let untimed = pair_parts(Plan::default(), |_| Ok(1), |_| Ok(1));
        assert!(matches!(untimed, Err(Error::Setup { .. })));
        let few = pair(Plan { pairs: 4, ..Plan::default() }, || Ok(1), || Ok(1));
        assert!(matches!(few, Err(Error::Setup { .. })));
    }
}
