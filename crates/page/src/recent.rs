//! The units that addresses were looked up in lately: from an address to its granule's entry in a few loads.
//!
//! ```text
//!   places[address >> 26, lowest bits] -> base of a unit | its map
//! ```
//! A place may be old, or half of it may be: whoever looks an address up compares what comes out.
//!
//! # Safety
//! A map stays as long as its space, and all maps of a space are as long as the longest ([`Unit`](crate::unit::Unit)):
//! whichever is found, the number of a granule that a unit may have lies within it.
#![allow(unsafe_code)]

use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};
use crate::unit::UNIT_SHIFT;
use std::ptr::null_mut;

const PLACES: usize = 256;

#[derive(Debug)]
struct Place {
    base: AtomicUsize,
    map: AtomicPtr<AtomicU32>,
}

/// Units by address, some of them.
#[derive(Debug)]
pub(crate) struct Recent {
    places: Box<[Place; PLACES]>,
    granule_shift: u32,
}

impl Recent {
    pub(crate) fn new(granule_shift: u32) -> Self {
        let place = |_| Place { base: AtomicUsize::new(0), map: AtomicPtr::new(null_mut()) };
        Recent { places: Box::new(std::array::from_fn(place)), granule_shift }
    }

    #[inline]
    fn place(&self, address: usize) -> &Place {
        &self.places[(address >> UNIT_SHIFT) % PLACES]
    }

    /// The entry of the granule that `address` lies in, or of another one; none where its unit is not known.
    #[inline]
    pub(crate) fn entry(&self, address: usize) -> Option<u32> {
        let place = self.place(address);
        let granule = address.wrapping_sub(place.base.load(Relaxed)) >> self.granule_shift;
        let map = place.map.load(Relaxed);
        if map.is_null() || granule >> (UNIT_SHIFT - self.granule_shift) != 0 {
            return None;
        }
        // SAFETY: not null, so a unit's map, which stays; and the granule is one that a unit may have.
        Some(unsafe { (*map.add(granule)).load(Relaxed) })
    }

    /// Notes the unit at `base`, in which `address` lies, and its map.
    pub(crate) fn note(&self, address: usize, base: usize, map: &[AtomicU32]) {
        let place = self.place(address);
        place.map.store(map.as_ptr().cast_mut(), Relaxed);
        place.base.store(base, Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }
}
