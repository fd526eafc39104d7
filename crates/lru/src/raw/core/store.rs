//! Stores the pieces of a value, and evicts other values if the pieces do not fit.

use super::super::coder::{Form, Packed};
use super::super::samples::small_len;
use super::super::slots::{NONE, Use};
use super::{Core, Departed, Refusal, spread};

/// The number of refused stores after which the pool may be compacted.
const REFUSALS: u32 = 32;
/// The pool is compacted if that frees at least 1/FREEABLE_SHARE of its memory, ...
const FREEABLE_SHARE: usize = 32;
/// ... and frees at most SHRINK_BYTES bytes at a time, because other threads wait for the lock.
const SHRINK_BYTES: usize = 1 << 20;

impl<K> Core<K> {
    /// Stores the pieces of a value. Returns the first slot of the value, which has no key yet.
    pub(super) fn store(
        &mut self,
        packed: &Packed,
        key_bytes: u32,
        spared: Option<u32>,
        out: &mut Departed<K>,
    ) -> Result<u32, Refusal> {
        let count = packed.pieces.len().max(1);
        self.make_room_for_slots(count, spared, out);
        let mut last = NONE;
        let mut first = NONE;
        let mut start = 0;
        for nth in 0..count {
            let used_as = if nth == 0 { Use::First } else { Use::More };
            let Some(slot) = self.slots.take(used_as) else {
                self.give_up(first);
                return Err(Refusal::NoRoom);
            };
            if nth == 0 {
                first = slot;
            } else {
                self.slots.chain(last, slot);
            }
            last = slot;
            let Some(&piece) = packed.pieces.get(nth) else { continue };
            if nth > 0 {
                let before = nth * self.block;
                self.slots.get_mut(slot).len = (packed.len - before).min(self.block) as u32;
            }
            let bytes = &packed.bytes[start..piece.end];
            start = piece.end;
            let stored = self.store_piece(slot, bytes, piece.form, key_bytes, spared, out);
            if let Err(refusal) = stored {
                self.give_up(first);
                return Err(refusal);
            }
            self.count_piece(bytes.len(), piece.form, true);
        }
        self.slots.get_mut(first).len = packed.len as u32;
        self.stats.stored += packed.len as u64;
        self.small_stored += small_len(packed.len, self.block);
        Ok(first)
    }

    /// Frees the pieces of a value that could not be stored completely.
    fn give_up(&mut self, first: u32) {
        if first != NONE {
            self.slots.get_mut(first).len = 0;
            self.free(first);
        }
    }

    /// Stores bytes for a slot, and evicts values until the bytes fit.
    fn store_piece(
        &mut self,
        slot: u32,
        bytes: &[u8],
        form: Form,
        key_bytes: u32,
        spared: Option<u32>,
        out: &mut Departed<K>,
    ) -> Result<(), Refusal> {
        loop {
            self.limit_pages(key_bytes as usize);
            let stored = self.pool.lock(slot)?.store(bytes, form as u8);
            match stored {
                Ok(_) => return Ok(()),
                Err(error) if error.is_limit() => {
                    self.refusals = self.refusals.wrapping_add(1);
                    if self.slots.is_sparse() {
                        // The slots of removed values must be released first.
                        return Err(Refusal::NoRoom);
                    }
                    let compacts = self.refusals.is_multiple_of(REFUSALS) && self.compact();
                    if !compacts && !self.evict(spared, out) && self.pool.compact() == 0 {
                        return Err(Refusal::NoRoom);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Limits the pool's pages to the memory that nothing else uses, minus `bytes`.
    pub(super) fn limit_pages(&self, bytes: usize) {
        let beside = self.beside_pages() + self.margin() + bytes;
        let pages = self.limit.saturating_sub(beside) / page::page_size();
        self.pool.pages().set_limit(Some(pages));
    }

    /// Compacts the pool if that frees much memory. Returns true if the pool was compacted.
    fn compact(&self) -> bool {
        let bytes = self.pool.pages().used() * page::page_size();
        self.pool.freeable() > bytes / FREEABLE_SHARE && self.pool.shrink(SHRINK_BYTES) > 0
    }

    /// Releases some of the memory of objects that were moved to other entries. Returns true if any
    /// memory was released.
    pub fn shrink_pool(&self) -> bool {
        self.pool.shrink(SHRINK_BYTES) > 0
    }

    /// Evicts values until `count` slots, and a new entry in the table or the growth of the table,
    /// fit within the limit.
    fn make_room_for_slots(&mut self, count: usize, spared: Option<u32>, out: &mut Departed<K>) {
        loop {
            let grows = spared.is_none() && self.table.len() == self.table.capacity();
            // The table is copied to one of twice its size while the old table still exists.
            let of_table = if grows { 2 * self.table.allocation_size() + 1024 } else { 0 };
            let needed = of_table + self.slots.bytes_to_take(count);
            if self.held() + needed <= self.limit || needed == 0 || !self.evict(spared, out) {
                break;
            }
        }
        if spared.is_some() {
            return;
        }
        let slots = &self.slots;
        self.table.reserve(1, |&index| spread(slots.get(index).hash));
    }
}
