//! A store and its expected contents.

use fastrand::Rng;

use super::Store;
use crate::Error;
use crate::contents::Contents;

/// The bytes of the largest content.
const LARGEST: usize = measure::page::PAGE_SIZE;

/// Draws a slot and the content that it receives.
pub fn draw(rng: &mut Rng, slots: u32, contents: u32) -> (u32, u32) {
    (rng.u32(0..slots), rng.u32(0..contents))
}

/// A store whose slots hold numbered contents, so that it can be verified after any work.
#[derive(Debug)]
pub struct Kept<'c, S, C> {
    store: S,
    contents: &'c C,
    /// The number of each slot's content.
    holds: Vec<Option<u32>>,
}

impl<'c, S: Store, C: Contents> Kept<'c, S, C> {
    /// Creates a store with one empty slot per content by `make`. The expected contents are
    /// allocated before `make` is called, so that any growth of memory during and after the call is
    /// caused by the store.
    pub fn new(contents: &'c C, make: impl FnOnce(u32) -> Result<S, Error>) -> Result<Self, Error> {
        // Written explicitly, because zeroed memory would become resident only at its first write.
        let mut holds = vec![Some(0); contents.len() as usize];
        holds.fill(None);
        Ok(Kept { store: make(contents.len())?, contents, holds })
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store mutably, so that it can be purged.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        self.holds.len() as u32
    }

    /// Returns the number of the slot's content.
    pub fn content(&self, slot: u32) -> Option<u32> {
        self.holds[slot as usize]
    }

    /// Returns the numbers of the stored contents.
    pub fn held(&self) -> impl Iterator<Item = u32> {
        self.holds.iter().copied().flatten()
    }

    /// Returns the bytes of the stored contents.
    pub fn held_bytes(&self) -> u64 {
        self.held().map(|nth| self.contents.get(nth).len() as u64).sum()
    }

    /// Stores in every slot the content with the slot's number.
    pub fn fill(&mut self) -> Result<(), Error> {
        (0..self.slots()).try_for_each(|slot| self.put(slot, slot))
    }

    /// Stores content `nth` in the slot, or frees the slot if the content is empty.
    #[inline]
    pub fn put(&mut self, slot: u32, nth: u32) -> Result<(), Error> {
        let bytes = self.contents.get(nth);
        if bytes.is_empty() {
            return self.drop_slot(slot);
        }
        self.store.store(slot, bytes)?;
        self.holds[slot as usize] = Some(nth);
        Ok(())
    }

    /// Frees the slot.
    pub fn drop_slot(&mut self, slot: u32) -> Result<(), Error> {
        self.holds[slot as usize] = None;
        self.store.drop_slot(slot)
    }

    /// Stores random contents in random slots, `operations` times.
    pub fn churn(&mut self, rng: &mut Rng, operations: u64) -> Result<(), Error> {
        for _ in 0..operations {
            let (slot, nth) = draw(rng, self.slots(), self.contents.len());
            self.put(slot, nth)?;
        }
        Ok(())
    }

    /// Verifies that every slot holds its content.
    pub fn verify(&self) -> Result<(), Error> {
        let mut out = vec![0; LARGEST];
        (0..self.slots()).try_for_each(|slot| {
            let len = self.store.read(slot, &mut out)?;
            self.compare(slot, &out[..len])
        })
    }

    /// Verifies that `found` is the slot's content. For an empty slot, `found` may be empty or
    /// zeros.
    pub fn compare(&self, slot: u32, found: &[u8]) -> Result<(), Error> {
        let right = match self.content(slot) {
            Some(nth) => found == self.contents.get(nth),
            None => found.iter().all(|&byte| byte == 0),
        };
        if right { Ok(()) } else { Err(Error::Slot { slot }) }
    }
}
