//! Where chance comes from: a seed in tests, the fuzzer's bytes in a target.

use fastrand::Rng;
use std::ops::RangeInclusive;

/// Makes choices. Every one of them is possible with either source.
pub enum Choices<'b> {
    /// Without end.
    Seeded(Rng),
    /// The bytes that are left. Behind their end all choices are the first.
    Bytes(&'b [u8]),
}

impl<'b> Choices<'b> {
    pub fn seeded(seed: u64) -> Self {
        Choices::Seeded(Rng::with_seed(seed))
    }

    pub fn of_bytes(bytes: &'b [u8]) -> Self {
        Choices::Bytes(bytes)
    }

    /// Returns whether the bytes are used up. A seed never is.
    pub fn is_over(&self) -> bool {
        matches!(self, Choices::Bytes([]))
    }

    /// Returns a number of so many of the source's bytes.
    fn number(&mut self, bytes: usize) -> u64 {
        match self {
            Choices::Seeded(rng) => rng.u64(..),
            Choices::Bytes(rest) => {
                let (taken, left) = rest.split_at(bytes.min(rest.len()));
                *rest = left;
                taken.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
        }
    }

    pub fn u64(&mut self) -> u64 {
        self.number(8)
    }

    pub fn bool(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        match self {
            Choices::Seeded(rng) => rng.usize(..end),
            Choices::Bytes(_) => {
                let bits = usize::BITS - (end - 1).leading_zeros();
                (self.number(bits.div_ceil(8) as usize) % end as u64) as usize
            }
        }
    }

    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// Returns true once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    /// Returns one of `of`, each as often as the number beside it says.
    pub fn weighted<T: Copy>(&mut self, of: &[(u32, T)]) -> T {
        let mut nth = self.below(of.iter().map(|(weight, _)| *weight as usize).sum());
        for (weight, choice) in of {
            match nth.checked_sub(*weight as usize) {
                Some(rest) => nth = rest,
                None => return *choice,
            }
        }
        unreachable!("the weights are as many as their sum")
    }

    /// Returns a number up to `most`: any, or one at an edge, just below it or just above.
    pub fn beside(&mut self, edges: &[usize], most: usize) -> usize {
        if self.bool() {
            return self.within(0..=most);
        }
        let edge = *self.pick(edges);
        (edge + self.below(3)).saturating_sub(1).min(most)
    }

    /// Returns bytes, at most `most`.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = self.within(0..=most);
        (0..len).map(|_| self.number(1) as u8).collect()
    }
}
