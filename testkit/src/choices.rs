//! The source of random choices. In tests the source is a seed. In a fuzz target it is the fuzzer's
//! bytes.

use fastrand::Rng;
use std::ops::RangeInclusive;

/// A source of choices. Both sources can make every choice.
pub enum Choices<'b> {
    /// An endless source.
    Seeded(Rng),
    /// The remaining bytes. When no bytes are left, every choice is the first alternative.
    Bytes(&'b [u8]),
}

impl<'b> Choices<'b> {
    pub fn seeded(seed: u64) -> Self {
        Choices::Seeded(Rng::with_seed(seed))
    }

    pub fn of_bytes(bytes: &'b [u8]) -> Self {
        Choices::Bytes(bytes)
    }

    /// Returns true if the bytes are used up. A seeded source is endless.
    pub fn is_over(&self) -> bool {
        matches!(self, Choices::Bytes([]))
    }

    /// Returns a number from the next `bytes` bytes of the source.
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

    /// Returns a number below `end`, where `end` is at least 1.
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

    /// Returns true once in `times` calls on average.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    /// Returns an element of `of`, with a probability proportional to its weight.
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

    /// Returns a number from 0 to `most`, both included: any number, or one of `edges`, or a
    /// neighbour of an edge.
    pub fn beside(&mut self, edges: &[usize], most: usize) -> usize {
        if self.bool() {
            return self.within(0..=most);
        }
        let edge = *self.pick(edges);
        (edge + self.below(3)).saturating_sub(1).min(most)
    }

    /// Returns at most `most` bytes. The result is shorter if a source of bytes has fewer left.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = self.within(0..=most);
        match self {
            Choices::Seeded(rng) => (0..len).map(|_| rng.u8(..)).collect(),
            Choices::Bytes(rest) => {
                let (taken, left) = rest.split_at(len.min(rest.len()));
                *rest = left;
                taken.to_vec()
            }
        }
    }
}
