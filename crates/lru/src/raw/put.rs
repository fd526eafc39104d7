//! Stores values, and evicts other values if a new value does not fit.

use super::coder::Form;
use super::core::Core;
use super::packed::Packed;
use super::slots::{NONE, Slots, Use};
use super::terms::{Departed, Offer};
use crate::Error;
use crate::policy::{PIECE_BYTES, POOL_GROWTH, WASTE_SHARE};

/// A value that is being stored.
pub struct Storing<'c, K> {
    pub core: &'c mut Core<K>,
    pub out: &'c mut Departed<K>,
    pub hash: u32,
    /// The first slot of the key's old value. This value must not be evicted, because the new value
    /// replaces it.
    pub old: Option<u32>,
    /// The length of the value in bytes.
    pub bytes: usize,
    /// The bytes of memory that the key uses.
    pub key_bytes: u32,
}

impl<K> Storing<'_, K> {
    /// Stores a value as the most recently used, and removes the key's old value.
    ///
    /// # Errors
    /// Fails if the value is not stored. The old value then stays, as the most recently used. If
    /// the pool needed more memory than estimated, other values may have been evicted in vain.
    pub fn put(mut self, offer: &mut Option<Offer<K>>) -> Result<(), Error> {
        let Some(Offer { packed, .. }) = &*offer else { return Ok(()) };
        if let Some(old) = self.old {
            self.core.values.slots.touch(old);
            self.key_bytes = self.core.values.slots[old].key_bytes;
        }
        self.expect_room(packed)?;
        if self.old.is_some() && self.core.held() + packed.bytes.len() > self.core.limit {
            // Removes the old value first, so that fewer other values must be evicted.
            return self.put_instead(offer);
        }
        let first = match self.store_or_shrink(packed) {
            Err(Error::NoRoom { .. }) if self.old.is_some() => return self.put_instead(offer),
            stored => stored?,
        };
        let Some(Offer { key, key_bytes, .. }) = offer.take() else { return Ok(()) };
        match self.old.take() {
            None => self.core.values.enter(first, self.hash, key, key_bytes),
            Some(old) => {
                self.core.values.take_place(first, old);
                self.out.keys.push(key);
            }
        }
        self.settle(first)
    }

    fn no_room(&self) -> Error {
        Error::NoRoom { bytes: self.bytes, limit: self.core.limit }
    }

    /// Evicts other values until the memory of the cache is within the limit.
    fn settle(self, first: u32) -> Result<(), Error> {
        let mut first = Some(first);
        if self.core.make_room(0, &mut first, self.out) {
            return Ok(());
        }
        // Even without other values, the value is too large.
        self.out.keys.extend(first.and_then(|first| self.core.values.remove(first)));
        self.core.values.renew();
        Err(self.no_room())
    }

    /// Returns an error if a value would not fit even in an empty cache.
    fn expect_room(&self, packed: &Packed) -> Result<(), Error> {
        let count = packed.pieces.len().max(1);
        let compressed = packed.parts().filter(|(form, _)| *form != Form::Raw);
        let compressed: usize = compressed.map(|(_, bytes)| bytes.len()).sum();
        let waste = compressed / WASTE_SHARE + count * PIECE_BYTES + POOL_GROWTH;
        let beside = Slots::<K>::bytes_of(count) + self.key_bytes as usize + self.core.margin();
        let needed = packed.bytes.len() + waste + beside;
        // A key or value whose size does not fit into 32 bits would not be counted completely.
        let is_countable = packed.len < u32::MAX as usize && self.key_bytes < u32::MAX;
        match is_countable && self.core.empty_bytes() + needed <= self.core.limit {
            true => Ok(()),
            false => Err(self.no_room()),
        }
    }

    /// Stores a value that does not fit together with the key's old value. Removes the old value
    /// before the store. If the new value is refused, stores the old value again.
    fn put_instead(mut self, offer: &mut Option<Offer<K>>) -> Result<(), Error> {
        let Some(old) = self.old.take() else { return Err(self.no_room()) };
        let before = self.core.values.packed(old)?;
        let Some(key) = self.core.values.remove(old) else { return Err(self.no_room()) };
        self.core.values.pieces.pool.trim();
        let Some(Offer { packed, .. }) = &*offer else { return Ok(()) };
        let (result, first) = match self.store_or_shrink(packed) {
            Ok(first) => {
                self.out.keys.extend(offer.take().map(|offer| offer.key));
                (Ok(()), Ok(first))
            }
            Err(refusal) => (Err(refusal), self.store_or_shrink(&before)),
        };
        match first {
            Ok(first) => {
                self.core.values.enter(first, self.hash, key, self.key_bytes);
                result.and(self.settle(first))
            }
            // The old value did fit, so the system must have refused memory.
            Err(_) => {
                self.out.keys.push(key);
                result
            }
        }
    }

    /// Stores the pieces of a value, which has no key yet. If the pieces do not fit, releases the
    /// memory that evicted values left behind, and tries again. Returns the value's first slot.
    fn store_or_shrink(&mut self, packed: &Packed) -> Result<u32, Error> {
        let mut before = usize::MAX;
        loop {
            match self.store(packed) {
                // The loop ends, because each attempt begins with fewer values than the previous
                // attempt.
                Err(Error::NoRoom { .. }) if self.core.values.len() < before => {
                    before = self.core.values.len();
                }
                stored => return stored,
            }
            match before {
                0 => self.core.values.renew(),
                _ => self.core.shrink(&mut self.old, self.out),
            }
        }
    }

    fn store(&mut self, packed: &Packed) -> Result<u32, Error> {
        self.make_room_for_slots(packed.pieces.len().max(1))?;
        let mut first = NONE;
        let stored = self.store_pieces(packed, &mut first);
        match stored {
            Ok(()) => self.core.values.set_len(first, packed.len),
            Err(_) if first == NONE => {}
            Err(_) => drop(self.core.values.free_pieces(first)),
        }
        stored.map(|()| first)
    }

    /// Stores the pieces of a value. Sets `first` to the first slot that was taken.
    fn store_pieces(&mut self, packed: &Packed, first: &mut u32) -> Result<(), Error> {
        let (mut last, mut left) = (NONE, packed.len);
        let mut parts = packed.parts();
        // An empty value has a slot, too.
        let mut part = parts.next();
        loop {
            let (no_room, slots) = (self.no_room(), &mut self.core.values.slots);
            let used_as = if last == NONE { Use::First } else { Use::More };
            let slot = slots.take(used_as).ok_or(no_room)?;
            match last {
                NONE => *first = slot,
                last => slots.chain(last, slot),
            }
            last = slot;
            let len = left.min(self.core.values.block);
            self.core.values.slots[slot].len = len as u32;
            left -= len;
            if let Some((form, bytes)) = part {
                self.store_piece(slot, bytes, form)?;
            }
            part = parts.next();
            if part.is_none() {
                return Ok(());
            }
        }
    }

    /// Stores the piece `bytes` of a slot, and evicts values until the piece fits.
    fn store_piece(&mut self, slot: u32, bytes: &[u8], form: Form) -> Result<(), Error> {
        loop {
            self.core.limit_pages(self.key_bytes as usize);
            match self.core.values.pieces.store(slot, bytes, form) {
                Err(error) if error.is_limit() => {
                    let compacts = self.core.values.pieces.count_refusal();
                    if self.core.values.slots.is_sparse() {
                        // Fails, because the caller must first release the slots of removed values.
                        return Err(self.no_room());
                    }
                    let frees = compacts && self.core.values.pieces.compact()
                        || self.core.evict(self.old, self.out)
                        || self.core.values.pieces.pool.compact() > 0;
                    if !frees {
                        return Err(self.no_room());
                    }
                }
                stored => return Ok(stored?),
            }
        }
    }

    /// Evicts values until `count` slots and a new entry in the table fit within the limit. The
    /// entry can make the table grow.
    fn make_room_for_slots(&mut self, count: usize) -> Result<(), Error> {
        loop {
            let needed = self.core.values.bytes_to_add(count, self.old.is_some());
            let fits = self.core.held() + needed <= self.core.limit || needed == 0;
            if fits || !self.core.evict(self.old, self.out) {
                break;
            }
        }
        if self.old.is_none() {
            self.core.values.reserve().map_err(|_| Error::NoMemory { bytes: self.bytes })?;
        }
        Ok(())
    }
}
