//! The values of a cache: the table of keys, the slots and the pieces, and their memory.
//!
//! This module calls no methods of keys. The caller's [`Compare`] compares keys.

use super::coder::Coder;
use super::coders::Coders;
use super::packed::Packed;
use super::pieces::Pieces;
use super::samples::small_len;
use super::slots::{NONE, Slots, Use};
use super::terms::{Compare, Comparison, Copied, Found, Verdicts};
use crate::Error;
use crate::policy::{TABLE_LEAST, TABLE_ROOM};
use hashbrown::{HashTable, TryReserveError};
use std::sync::Arc;

/// The values, by key and in the order of use.
#[derive(Debug)]
pub struct Values<K> {
    pub pieces: Pieces,
    pub slots: Slots<K>,
    /// The first slots of the values, by the hashes of their keys.
    table: HashTable<u32>,
    pub coders: Coders,
    /// The maximum length of a piece in bytes.
    pub block: usize,
    /// The total length of all values in bytes.
    pub stored: u64,
    pub small_stored: usize,
    pub key_bytes: usize,
}

/// Fills 64 bits with a hash of 32 bits. The table uses the lowest bits and the seven highest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl<K> Values<K> {
    /// Returns an empty set of values.
    pub fn new(pieces: Pieces, coder: Arc<Coder>) -> Self {
        Values {
            pieces,
            slots: Slots::new(),
            table: HashTable::new(),
            block: coder.block,
            coders: Coders::new(coder),
            stored: 0,
            small_stored: 0,
            key_bytes: 0,
        }
    }

    /// Returns true if a value was packed with a coder that is not current any more.
    pub fn is_stale(&self, packed: &Packed) -> bool {
        let current = self.coders.current();
        packed.coders.iter().flatten().any(|coder| !Arc::ptr_eq(coder, current))
    }

    /// Drops the first coder if no piece needs it any more.
    pub fn drop_unused(&mut self) {
        if self.coders.by_form[1].is_some() && self.pieces.of_coder[0] == 0 {
            self.coders.by_form[0] = None;
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the total number of bytes of memory used, without the coders.
    pub fn bytes(&self) -> usize {
        let tables = self.slots.bytes() + self.table.allocation_size();
        self.pieces.pool.bytes() + tables + self.key_bytes
    }

    /// Returns true if the table has the value whose first slot is `first`.
    pub fn has(&self, first: u32) -> bool {
        self.table.find(spread(self.slots[first].hash), |&index| index == first).is_some()
    }

    /// Returns the maximum number of bytes that a new value of `count` pieces needs for its slots.
    /// Unless `has_place` is set, adds the bytes for its entry in the table.
    pub fn bytes_to_add(&self, count: usize, has_place: bool) -> usize {
        let grows = !has_place && self.table.len() == self.table.capacity();
        // While a larger table of twice the size is filled, the old table still exists.
        let of_table = if grows { 2 * self.table.allocation_size() + 1024 } else { 0 };
        of_table + self.slots.bytes_to_take(count)
    }

    /// Reserves an entry in the table.
    pub fn reserve(&mut self) -> Result<(), TryReserveError> {
        let slots = &self.slots;
        self.table.try_reserve(1, |&index| spread(slots[index].hash))
    }

    /// Returns the first slot of the value with the given key.
    pub fn find(&self, hash: u32, compare: Compare<'_, K>, verdicts: &Verdicts) -> Found<u32, K> {
        let mut unknown = Vec::new();
        for &first in self.table.iter_hash(spread(hash)) {
            let (slot, id) = (&self.slots[first], self.slots.id(first));
            let is_other = slot.hash != hash || verdicts.others.contains(&id);
            let Some(key) = slot.key.as_ref().filter(|_| !is_other) else { continue };
            if verdicts.same == Some(id) {
                return Found::Yes(first);
            }
            match compare(key) {
                Comparison::Equal => return Found::Yes(first),
                Comparison::Different => {}
                Comparison::Unknown(copy) => unknown.push((id, copy)),
            }
        }
        if unknown.is_empty() { Found::No } else { Found::Ask(unknown) }
    }

    /// Returns all keys, the least recently used first.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.by_age().filter_map(|first| self.slots[first].key.as_ref())
    }

    /// Returns a copy of a value, with the id of the value.
    pub fn copied(&self, first: u32) -> Copied {
        (self.slots.id(first), self.packed(first))
    }

    /// Returns a packed copy of a value.
    ///
    /// # Errors
    /// Fails if memory for the copy can't be allocated.
    pub fn packed(&self, first: u32) -> Result<Packed, Error> {
        let len = self.slots[first].len as usize;
        let mut packed = Packed { len, ..Packed::default() };
        for piece in self.slots.pieces(first) {
            let copied = self.pieces.copy_to(piece, &mut packed, &self.coders.by_form);
            copied.map_err(|_| Error::NoMemory { bytes: len })?;
        }
        Ok(packed)
    }

    /// Records the length of a value after its pieces were stored.
    pub fn set_len(&mut self, first: u32, len: usize) {
        self.slots[first].len = len as u32;
        self.stored += len as u64;
        self.small_stored += small_len(len, self.block);
    }

    /// Records the key of a stored value, and adds the value to the table and the order.
    pub fn enter(&mut self, first: u32, hash: u32, key: K, key_bytes: u32) {
        let slot = &mut self.slots[first];
        (slot.key, slot.hash, slot.key_bytes) = (Some(key), hash, key_bytes);
        self.key_bytes += key_bytes as usize;
        let slots = &self.slots;
        self.table.insert_unique(spread(hash), first, |&index| spread(slots[index].hash));
        self.slots.push_youngest(first);
    }

    /// Replaces the value `old` by the stored value `first`. `first` gets the key and the table's
    /// entry of `old`, and becomes the most recently used. Frees `old`.
    pub fn take_place(&mut self, first: u32, old: u32) {
        let slot = &mut self.slots[old];
        let (key, hash, key_bytes) = (slot.key.take(), slot.hash, slot.key_bytes);
        let slot = &mut self.slots[first];
        (slot.key, slot.hash, slot.key_bytes) = (key, hash, key_bytes);
        if let Some(index) = self.table.find_mut(spread(hash), |&index| index == old) {
            *index = first;
        }
        self.slots.unlink(old);
        self.slots.push_youngest(first);
        self.free(old);
    }

    /// Removes a value. Returns its key.
    pub fn remove(&mut self, first: u32) -> Option<K> {
        let slot = &self.slots[first];
        let (hash, key_bytes) = (slot.hash, slot.key_bytes);
        if let Ok(entry) = self.table.find_entry(spread(hash), |&index| index == first) {
            entry.remove();
        }
        self.slots.unlink(first);
        self.key_bytes -= key_bytes as usize;
        self.free(first)
    }

    /// Frees a value that is neither in the table nor in the order. Returns its key.
    fn free(&mut self, first: u32) -> Option<K> {
        let len = self.slots[first].len;
        self.stored -= u64::from(len);
        self.small_stored -= small_len(len as usize, self.block);
        self.free_pieces(first)
    }

    /// Frees the slots of a value, and their pieces. Returns the key, if the value has one.
    pub fn free_pieces(&mut self, first: u32) -> Option<K> {
        let (mut piece, mut key) = (first, None);
        while piece != NONE {
            self.pieces.free(piece);
            let (of_first, next) = self.slots.give_back(piece);
            key = key.or(of_first);
            piece = next;
        }
        key
    }

    /// Resets the set, which must contain no values.
    pub fn renew(&mut self) {
        debug_assert_eq!(self.len(), 0);
        self.table = HashTable::new();
        self.slots.renew();
        self.pieces.renew();
    }

    /// Releases the memory of unused entries in the table and in the pool.
    pub fn shrink_tables(&mut self) {
        if self.table.capacity() > TABLE_LEAST.max(TABLE_ROOM * self.table.len()) {
            let slots = &self.slots;
            self.table.shrink_to(2 * self.table.len(), |&index| spread(slots[index].hash));
        }
        // The pool frees the memory of empty entries only if enough entries are empty.
        self.pieces.pool.rebalance(&mut || true);
    }

    /// Moves the contents of the last slots to free slots, and releases the last slots. Updates
    /// `watched` if that slot is moved. Returns the keys of values that were lost.
    pub fn vacate_last(&mut self, watched: &mut Option<u32>) -> Vec<K> {
        // Without a limit no store is refused. Each object is freed before it is stored again, so
        // memory does not grow.
        self.pieces.pool.pages().set_limit(None);
        let (mut lost, mut keys) = (Vec::new(), Vec::new());
        for (from, to) in self.slots.vacate_last() {
            if *watched == Some(from) {
                *watched = Some(to);
            }
            let slot = &self.slots[to];
            if slot.used_as == Use::First {
                let place = self.table.find_mut(spread(slot.hash), |&index| index == from);
                place.into_iter().for_each(|index| *index = to);
            }
            if !self.pieces.relocate(from, to) {
                lost.push(to);
            }
        }
        for piece in lost {
            if let Some(first) = self.slots.first_of(piece) {
                *watched = watched.filter(|&index| index != first);
                keys.extend(self.remove(first));
            }
        }
        keys
    }
}
