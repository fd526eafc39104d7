//! Checks that the parts of the core are consistent with each other.

use super::super::coder::Form;
use super::super::samples::small_len;
use super::{Core, spread};

impl<K> Core<K> {
    /// Asserts that all parts of the core are consistent with each other.
    pub fn check(&self) {
        self.slots.check();
        self.pool.check();
        let (mut stored, mut compressed, mut key_bytes, mut values) = (0, 0, 0, 0);
        let (mut pieces_of, mut small) = ([0; 2], 0);
        for first in self.slots.by_age() {
            let slot = self.slots.get(first);
            let found = self.table.find(spread(slot.hash), |&index| index == first);
            assert_eq!(found, Some(&first), "the table lacks a value");
            let packed = self.packed(first).expect("memory for a copy");
            assert_eq!(packed.value().expect("a value is whole").len(), slot.len as usize);
            let mut left = slot.len as usize;
            for piece in
                std::iter::successors(self.slots.next_of(first), |&n| self.slots.next_of(n))
            {
                left -= self.block;
                assert_eq!(self.slots.get(piece).len as usize, left.min(self.block));
            }
            stored += u64::from(slot.len);
            small += small_len(slot.len as usize, self.block);
            compressed += packed.bytes.len() as u64;
            key_bytes += slot.key_bytes as usize;
            values += 1;
            for piece in packed.pieces.iter().filter(|piece| piece.form != Form::Raw) {
                pieces_of[piece.form as usize - 1] += 1;
            }
        }
        assert_eq!(values, self.table.len());
        let stats = &self.stats;
        assert_eq!((stored, compressed), (stats.stored, stats.compressed));
        assert_eq!((key_bytes, pieces_of), (self.key_bytes, self.pieces_of));
        assert_eq!(small, self.small_stored);
        assert!(self.coders.iter().zip(pieces_of).all(|(coder, n)| coder.is_some() || n == 0));
        assert!(self.held() <= self.limit, "{} of {} bytes", self.held(), self.limit);
    }
}
