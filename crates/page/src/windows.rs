//! From an address to its unit in constant time: a hash of the 64 MiB windows that units lie in.
//!
//! A unit never straddles a window (segments are aligned to their size, or to 64 MiB). Small segments
//! may share one, so a window may have several entries; probing goes on to the first empty one.

use crate::Error;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::unit::UNIT_SHIFT;

const EMPTY: u32 = 0;
const GONE: u32 = u32::MAX;

/// An open hash table of unit numbers, read without a lock, changed under the space's.
#[derive(Debug)]
pub(crate) struct Windows {
    entries: Box<[AtomicU32]>,
}

impl Windows {
    /// A table for `units` units, half full then; it takes twice as many.
    pub(crate) fn new(units: u32) -> Result<Self, Error> {
        let len = (units as usize * 2).next_power_of_two();
        let mut entries = Vec::new();
        let refused = |_| Error::Mapping { bytes: len * 4 };
        entries.try_reserve_exact(len).map_err(refused)?;
        entries.resize_with(len, || AtomicU32::new(EMPTY));
        Ok(Windows { entries: entries.into_boxed_slice() })
    }

    /// Entries to probe for `address`, in order.
    fn probe(&self, address: usize) -> impl Iterator<Item = &AtomicU32> {
        let mask = self.entries.len() - 1;
        let window = (address >> UNIT_SHIFT) as u64;
        let start = (window.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
        (0..self.entries.len()).map(move |step| &self.entries[(start + step) & mask])
    }

    /// The unit at `address` for which `contains` holds.
    pub(crate) fn find(&self, address: usize, contains: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(address)
            .map(|entry| entry.load(Relaxed))
            .take_while(|&entry| entry != EMPTY)
            .find(|&entry| entry != GONE && contains(entry - 1))
            .map(|entry| entry - 1)
    }

    /// Enters `unit`, which begins at `address`; false where the table is full.
    pub(crate) fn insert(&self, address: usize, unit: u32) -> bool {
        let free = self.probe(address).find(|entry| matches!(entry.load(Relaxed), EMPTY | GONE));
        if let Some(entry) = free {
            entry.store(unit + 1, Relaxed);
        }
        free.is_some()
    }

    /// Takes `unit` out again.
    pub(crate) fn remove(&self, address: usize, unit: u32) {
        if let Some(entry) = self.probe(address).find(|entry| entry.load(Relaxed) == unit + 1) {
            entry.store(GONE, Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_and_removed_windows() {
        let windows = Windows::new(8).unwrap();
        let small = |unit: u32| 0x7000_0000_0000 + unit as usize * 0x10_0000;
        for unit in 0..8 {
            assert!(windows.insert(small(unit), unit));
        }
        let find = |address: usize| {
            windows.find(address, |unit| (small(unit)..small(unit) + 0x10_0000).contains(&address))
        };
        assert_eq!(find(small(5) + 17), Some(5));
        windows.remove(small(3), 3);
        assert_eq!(find(small(3)), None);
        assert_eq!(find(small(7)), Some(7));
        assert!(windows.insert(small(3), 3));
        assert_eq!(find(small(3) + 1), Some(3));
        assert_eq!(find(0x1234), None);
    }
}
