//! Values get their keys, and take the places of others.

use super::super::coder::{Form, Packed, Piece};
use super::super::slots::{NONE, Slots};
use super::{Core, Departed, Offer, Refusal, spread};

/// What the pool takes beside the bytes of a value: this part of those that were compressed, and so
/// have all lengths, ...
const WASTE_SHARE: usize = 8;
/// ... so many bytes for each piece, and for all.
const PIECE_BYTES: usize = 160;
const POOL_GROWTH: usize = 16 << 10;

impl<K> Core<K> {
    /// Keeps a value, in place of that in slot `old` if there is one, as the youngest.
    ///
    /// # Errors
    /// It is not kept, and `old` stays, as the youngest. Others are gone only where the pool needed
    /// more room than could be foreseen.
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
            // With the one in its place gone, others may stay.
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

    /// Makes room for what a value has taken that was stored.
    fn settle(&mut self, first: u32, out: &mut Departed<K>) -> Result<(), Refusal> {
        let mut first = Some(first);
        if self.make_room(0, &mut first, out) {
            return Ok(());
        }
        // It is alone, and too large all the same.
        out.keys.extend(first.and_then(|first| self.remove(first)));
        self.renew();
        Err(Refusal::NoRoom)
    }

    /// Fails if a value would find no room in an empty cache.
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

    /// Stores a value where there is no room for it beside the one in its place.
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
            // It was there, so this is the system's refusal.
            Err(_) => {
                out.keys.push(key);
                result
            }
        }
    }

    /// Stores the pieces of a value, and gives back for it what others left that had to go. It is
    /// not kept yet.
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
                // Each time with fewer values.
                Err(Refusal::NoRoom) if self.len() < before => before = self.len(),
                stored => return stored,
            }
            match self.table.is_empty() {
                true => self.renew(),
                false => self.shrink(old, out),
            }
        }
    }

    /// Gives a stored value its key, and its places in table and order.
    fn enter(&mut self, first: u32, hash: u32, key: K, key_bytes: u32) {
        let slot = self.slots.get_mut(first);
        (slot.key, slot.hash, slot.key_bytes) = (Some(key), hash, key_bytes);
        self.key_bytes += key_bytes as usize;
        let slots = &self.slots;
        self.table.insert_unique(spread(hash), first, |&index| spread(slots.get(index).hash));
        self.slots.push_youngest(first);
    }

    /// Gives a stored value the key and the places of another, which is freed.
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
