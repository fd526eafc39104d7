//! Assigns keys to stored values, and replaces old values of these keys.

use super::super::coder::{Form, Packed, Piece};
use super::super::slots::{NONE, Slots};
use super::{Core, Departed, Offer, Refusal, spread};

/// The estimated memory that the pool needs for a value beyond the value's bytes: 1/WASTE_SHARE of
/// the compressed bytes, because pieces have arbitrary lengths, ...
const WASTE_SHARE: usize = 8;
/// ... plus PIECE_BYTES bytes for each piece, plus `POOL_GROWTH` bytes in total.
const PIECE_BYTES: usize = 160;
const POOL_GROWTH: usize = 16 << 10;

impl<K> Core<K> {
    /// Stores a value as the most recently used, in place of the value in slot `old`, if `old` is
    /// given.
    ///
    /// # Errors
    /// If the value is not stored. The value in `old` then stays, as the most recently used. Other
    /// values are lost only if the pool needed more memory than was estimated.
    pub fn put(
        &mut self,
        hash: u32,
        old: Option<u32>,
        offer: &mut Option<Offer<K>>,
        out: &mut Departed<K>,
    ) -> Result<(), Refusal> {
        let Some(Offer { packed, key_bytes, .. }) = &*offer else { return Ok(()) };
        let mut key_bytes = *key_bytes;
        if let Some(old) = old {
            self.slots.touch(old);
            key_bytes = self.slots.get(old).key_bytes;
        }
        self.expect_room(packed, key_bytes as usize)?;
        if old.is_some() && self.held() + packed.bytes.len() > self.limit {
            // If the old value is removed first, fewer other values need to be evicted.
            return self.put_instead(hash, old, offer, out);
        }
        let mut old = old;
        let first = match self.store_or_shrink(packed, key_bytes, &mut old, out) {
            Err(Refusal::NoRoom) if old.is_some() => {
                return self.put_instead(hash, old.take(), offer, out);
            }
            stored => stored?,
        };
        let Some(offer) = offer.take() else { return Ok(()) };
        match old {
            None => self.enter(first, hash, offer.key, key_bytes),
            Some(old) => {
                self.take_place(first, old);
                out.keys.push(offer.key);
            }
        }
        self.settle(first, out)
    }

    /// Evicts other values until the memory that a stored value uses is within the limit.
    fn settle(&mut self, first: u32, out: &mut Departed<K>) -> Result<(), Refusal> {
        let mut first = Some(first);
        if self.make_room(0, &mut first, out) {
            return Ok(());
        }
        // The value is the only one, and is still too large.
        out.keys.extend(first.and_then(|first| self.remove(first)));
        self.renew();
        Err(Refusal::NoRoom)
    }

    /// Returns an error if a value would not fit even in an empty cache.
    fn expect_room(&self, packed: &Packed, key_bytes: usize) -> Result<(), Refusal> {
        let count = packed.pieces.len().max(1);
        let of_raw = |(piece, start): (&Piece, usize)| match piece.form {
            Form::Raw => piece.end - start,
            _ => 0,
        };
        let starts = std::iter::once(0).chain(packed.pieces.iter().map(|piece| piece.end));
        let raw: usize = packed.pieces.iter().zip(starts).map(of_raw).sum();
        let waste = (packed.bytes.len() - raw) / WASTE_SHARE + count * PIECE_BYTES + POOL_GROWTH;
        let slots = Slots::<K>::bytes_of(count);
        let needed = packed.bytes.len() + waste + slots + key_bytes + self.margin();
        if packed.len >= NONE as usize || self.empty_bytes() + needed > self.limit {
            return Err(Refusal::NoRoom);
        }
        Ok(())
    }

    /// Stores a value that does not fit beside the value that it replaces.
    fn put_instead(
        &mut self,
        hash: u32,
        old: Option<u32>,
        offer: &mut Option<Offer<K>>,
        out: &mut Departed<K>,
    ) -> Result<(), Refusal> {
        let Some(old) = old else { return Err(Refusal::NoRoom) };
        let before = self.packed(old)?;
        let key_bytes = self.slots.get(old).key_bytes;
        let Some(key) = self.remove(old) else { return Err(Refusal::NoRoom) };
        self.pool.trim();
        let Some(Offer { packed, .. }) = &*offer else { return Ok(()) };
        let (result, first) = match self.store_or_shrink(packed, key_bytes, &mut None, out) {
            Ok(first) => {
                out.keys.extend(offer.take().map(|offer| offer.key));
                (Ok(()), Ok(first))
            }
            Err(refusal) => {
                (Err(refusal), self.store_or_shrink(&before, key_bytes, &mut None, out))
            }
        };
        match first {
            Ok(first) => {
                self.enter(first, hash, key, key_bytes);
                result.and(self.settle(first, out))
            }
            // The old value fitted before, so the system must have refused memory.
            Err(_) => {
                out.keys.push(key);
                result
            }
        }
    }

    /// Stores the pieces of a value, which has no key yet. If they do not fit, releases the memory
    /// that evicted values left behind, and tries again.
    fn store_or_shrink(
        &mut self,
        packed: &Packed,
        key_bytes: u32,
        old: &mut Option<u32>,
        out: &mut Departed<K>,
    ) -> Result<u32, Refusal> {
        let mut before = usize::MAX;
        loop {
            match self.store(packed, key_bytes, *old, out) {
                // The loop ends, because each attempt begins with fewer values than the previous
                // one.
                Err(Refusal::NoRoom) if self.len() < before => before = self.len(),
                stored => return stored,
            }
            match self.table.is_empty() {
                true => self.renew(),
                false => self.shrink(old, out),
            }
        }
    }

    /// Records the key of a stored value, and adds the value to the table and the order.
    fn enter(&mut self, first: u32, hash: u32, key: K, key_bytes: u32) {
        let slot = self.slots.get_mut(first);
        (slot.key, slot.hash, slot.key_bytes) = (Some(key), hash, key_bytes);
        self.key_bytes += key_bytes as usize;
        let slots = &self.slots;
        self.table.insert_unique(spread(hash), first, |&index| spread(slots.get(index).hash));
        self.slots.push_youngest(first);
    }

    /// Moves the key, and the places in the table and the order, of the value `old` to a stored
    /// value, and frees `old`.
    fn take_place(&mut self, first: u32, old: u32) {
        let slot = self.slots.get_mut(old);
        let (key, hash, key_bytes) = (slot.key.take(), slot.hash, slot.key_bytes);
        let slot = self.slots.get_mut(first);
        (slot.key, slot.hash, slot.key_bytes) = (key, hash, key_bytes);
        if let Some(index) = self.table.find_mut(spread(hash), |&index| index == old) {
            *index = first;
        }
        self.slots.unlink(old);
        self.slots.push_youngest(first);
        self.free(old);
    }
}
