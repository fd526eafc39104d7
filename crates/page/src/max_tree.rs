//! A tree of maxima over an array of numbers. The time to find the first number that is large
//! enough, or to change a number, is proportional to the number of levels.
//!
//! ```text
//!   level 2: | largest of the 16 at 0 of level 1 | ...
//!   level 1: | largest of numbers 0 to 15 | of 16 to 31 | ...
//!   level 0: | number 0 | 1 | 2 | ...            2 bytes each, 16 to a group
//! ```
//! The top is the level with one group.

use crate::Error;
use crate::budget::Supply;
use crate::heap::reserve;
use crate::policy::{MAX_TREE_LEVELS as LEVELS, MAX_TREE_WIDTH as WIDTH};

/// A group of numbers. The next higher level contains the maximum of the group. A group always has
/// 16 numbers, so one vector instruction compares all of them.
type Group = [u16; WIDTH];

/// Numbers of 16 bits, by index. A number that was never set is 0.
#[derive(Debug, Default)]
pub(crate) struct MaxTree {
    levels: [Vec<Group>; LEVELS],
    /// The index and the new value of the number that decreased last. The levels keep its old value
    /// until a search finds this number, or another number decreases. So a number that repeatedly
    /// decreases and increases changes no level.
    deferred: Option<(u32, u16)>,
}

impl MaxTree {
    /// Extends the array to at least `len` numbers.
    pub(crate) fn grow(&mut self, len: u32, supply: Option<&dyn Supply>) -> Result<(), Error> {
        let mut lens = [(len as usize).div_ceil(WIDTH); LEVELS];
        for level in 1..LEVELS {
            let below = lens[level - 1];
            lens[level] = if below > 1 { below.div_ceil(WIDTH) } else { 0 };
        }
        for (groups, len) in self.levels.iter_mut().zip(lens) {
            reserve(groups, len, supply)?;
        }
        let mut below: &[Group] = &[];
        for (groups, len) in self.levels.iter_mut().zip(lens) {
            let is_new = groups.is_empty();
            groups.resize(len.max(groups.len()), [0; WIDTH]);
            // When a level gets its second group, the level above it is created.
            if let (true, Some(first), Some(only)) = (is_new, groups.first_mut(), below.first()) {
                first[0] = largest(only);
            }
            below = groups;
        }
        Ok(())
    }

    /// Returns the number at `index`, or 0 if `index` is beyond the array.
    pub(crate) fn get(&self, index: u32) -> u16 {
        let deferred = self.deferred.filter(|&(at, _)| at == index);
        deferred.map_or(self.stored(index), |(_, number)| number)
    }

    fn stored(&self, index: u32) -> u16 {
        let at = index as usize;
        self.levels[0].get(at / WIDTH).map_or(0, |group| group[at % WIDTH])
    }

    /// Changes the number at `index`, which is below the length.
    pub(crate) fn set(&mut self, index: u32, number: u16) {
        if self.deferred.is_some_and(|(at, _)| at == index) {
            self.deferred = None;
        }
        if number < self.stored(index) {
            self.store_deferred();
            self.deferred = Some((index, number));
        } else {
            self.store(index, number);
        }
    }

    fn store_deferred(&mut self) {
        if let Some((index, number)) = self.deferred.take() {
            self.store(index, number);
        }
    }

    fn store(&mut self, index: u32, number: u16) {
        let (mut at, mut number) = (index as usize, number);
        for groups in self.levels.iter_mut().take_while(|groups| !groups.is_empty()) {
            let group = &mut groups[at / WIDTH];
            if std::mem::replace(&mut group[at % WIDTH], number) == number {
                return;
            }
            number = largest(group);
            at /= WIDTH;
        }
    }

    /// Returns the lowest index whose number is at least `least`.
    pub(crate) fn first(&mut self, least: u16) -> Option<u32> {
        let found = self.first_stored(least)?;
        if self.get(found) >= least {
            return Some(found);
        }
        self.store_deferred();
        self.first_stored(least)
    }

    fn first_stored(&self, least: u16) -> Option<u32> {
        let top = self.levels.iter().position(|groups| groups.len() <= 1)?;
        let mut at = 0;
        for groups in self.levels[..=top].iter().rev() {
            at = at * WIDTH + first_in(groups.get(at)?, least)?;
        }
        Some(at as u32)
    }

    /// Returns the size of the tree in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|groups| groups.capacity() * size_of::<Group>()).sum()
    }

    /// Asserts that each level holds the maxima of the level below, and that the deferred number is
    /// smaller than the stored one.
    pub(crate) fn check(&self) {
        assert!(
            self.deferred.is_none_or(|(index, number)| number < self.stored(index)),
            "what is deferred"
        );
        for (level, pair) in self.levels.windows(2).enumerate() {
            let below = if pair[0].len() > 1 { &*pair[0] } else { &[] };
            let above = pair[1].as_flattened();
            assert_eq!(below.len().next_multiple_of(WIDTH), above.len(), "level {}", level + 1);
            let largest = below.iter().map(largest).chain(std::iter::repeat(0));
            assert!(above.iter().copied().eq(largest.take(above.len())), "level {}", level + 1);
        }
    }
}

fn largest(group: &Group) -> u16 {
    group.iter().fold(0, |most, &one| most.max(one))
}

fn first_in(group: &Group, least: u16) -> Option<usize> {
    let bits = (0..WIDTH).map(|nth| u32::from(group[nth] >= least) << nth);
    let bits = bits.fold(0, |all, bit| all | bit);
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use testkit::seed;

    #[test]
    fn the_first_is_found_at_every_edge() {
        for len in [1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 4095, 4096, 4097, 65536] {
            let mut tree = MaxTree::default();
            tree.grow(len, None).unwrap();
            assert_eq!((tree.first(0), tree.first(1)), (Some(0), None));
            for index in [0, 1, 15, 16, 17, 63, 64, 65, 255, 256, len / 2, len - 1] {
                if index < len {
                    tree.set(index, 7);
                    tree.check();
                    assert_eq!((tree.first(7), tree.first(8)), (Some(index), None), "{len}");
                    assert_eq!(tree.get(index), 7);
                    tree.set(index, 0);
                }
            }
            tree.check();
            assert_eq!((tree.first(1), tree.get(len)), (None, 0));
        }
    }

    #[test]
    fn random_changes_match_a_row() {
        let mut random = Rng::with_seed(seed(1));
        let mut tree = MaxTree::default();
        let mut row: Vec<u16> = Vec::new();
        for step in 0..20_000 {
            if random.u32(..20) == 0 || row.is_empty() {
                row.resize(row.len() + random.usize(1..20), 0);
                tree.grow(row.len() as u32, None).unwrap();
            }
            // In half of the rounds, changes one of the last 20 numbers, as a growing table does.
            let back = if random.bool() { row.len() } else { row.len().min(20) };
            let index = row.len() - random.usize(1..=back);
            row[index] = random.u16(..9);
            tree.set(index as u32, row[index]);
            let least = random.u16(..10);
            let first = row.iter().position(|&number| number >= least);
            assert_eq!(tree.first(least), first.map(|at| at as u32), "{least} at step {step}");
            if step % 500 == 0 {
                tree.check();
            }
        }
        assert!((0..).zip(&row).all(|(index, &number)| tree.get(index) == number));
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        for nth in 1.. {
            let supply = crate::RefuseNth::new(nth, false);
            let mut tree = MaxTree::default();
            tree.grow(16, None).unwrap();
            tree.set(3, 5);
            if tree.grow(4000, Some(&supply)).is_ok() {
                assert_eq!(nth, 4, "three levels begin or grow");
                break;
            }
            tree.check();
            assert_eq!((tree.first(1), tree.get(16)), (Some(3), 0));
            tree.grow(4000, Some(&supply)).unwrap();
            tree.set(3999, 6);
            tree.check();
            assert_eq!(tree.first(6), Some(3999));
        }
    }
}
