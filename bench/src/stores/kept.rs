//! A store, and what must be in it.

use fastrand::Rng;

use super::Store;
use crate::Error;
use crate::contents::Contents;

/// Bytes of the largest content.
const LARGEST: usize = measure::page::PAGE_SIZE;

/// A slot, and the content that it is to hold.
pub fn draw(rng: &mut Rng, slots: u32, contents: u32) -> (u32, u32) {
    (rng.u32(0..slots), rng.u32(0..contents))
}

/// A store whose slots hold numbered contents; after any work it can be compared.
#[derive(Debug)]
pub struct Kept<'c, S, C> {
    store: S,
    contents: &'c C,
    /// Which content a slot holds.
    holds: Vec<Option<u32>>,
}

impl<'c, S: Store, C: Contents> Kept<'c, S, C> {
    /// As many empty slots as `make` is asked for: one for each content. What is noted here is
    /// noted before `make` is called, so that memory measured from there on is the store's.
    pub fn new(contents: &'c C, make: impl FnOnce(u32) -> Result<S, Error>) -> Result<Self, Error> {
        // Not zeros: those would take memory when they are first written.
        let mut holds = vec![Some(0); contents.len() as usize];
        holds.fill(None);
        Ok(Kept { store: make(contents.len())?, contents, holds })
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store, to be purged.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        self.holds.len() as u32
    }

    /// Which content a slot holds.
    pub fn content(&self, slot: u32) -> Option<u32> {
        self.holds[slot as usize]
    }

    /// Numbers of the contents that are held.
    pub fn held(&self) -> impl Iterator<Item = u32> {
        self.holds.iter().copied().flatten()
    }

    /// Bytes of the contents that are held.
    pub fn held_bytes(&self) -> u64 {
        self.held().map(|nth| self.contents.get(nth).len() as u64).sum()
    }

    /// Every slot holds the content of its own number.
    pub fn fill(&mut self) -> Result<(), Error> {
        (0..self.slots()).try_for_each(|slot| self.put(slot, slot))
    }

    /// The slot holds the content `nth`; an empty one is not stored.
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

    /// The slot holds nothing.
    pub fn drop_slot(&mut self, slot: u32) -> Result<(), Error> {
        self.holds[slot as usize] = None;
        self.store.drop_slot(slot)
    }

    /// Writes any content to any slot, so often.
    pub fn churn(&mut self, rng: &mut Rng, operations: u64) -> Result<(), Error> {
        for _ in 0..operations {
            let (slot, nth) = draw(rng, self.slots(), self.contents.len());
            self.put(slot, nth)?;
        }
        Ok(())
    }

    /// Every slot gives back what it holds.
    pub fn verify(&self) -> Result<(), Error> {
        let mut out = vec![0; LARGEST];
        (0..self.slots()).try_for_each(|slot| {
            let len = self.store.read(slot, &mut out)?;
            self.compare(slot, &out[..len])
        })
    }

    /// Whether `found` is what the slot holds; where that is nothing, nothing or zeros.
    pub fn compare(&self, slot: u32, found: &[u8]) -> Result<(), Error> {
        let right = match self.content(slot) {
            Some(nth) => found == self.contents.get(nth),
            None => found.iter().all(|&byte| byte == 0),
        };
        if right { Ok(()) } else { Err(Error::Slot { slot }) }
    }
}
