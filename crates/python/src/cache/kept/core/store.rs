//! Stores the pieces of a value, and evicts others to make room for them.

use super::super::coder::{Form, Packed};
use super::super::samples::small_len;
use super::super::slots::{NONE, Use};
use super::{Core, Departed, Refusal, spread};

/// The number of refusals after which the pool is asked to compact.
const REFUSALS: u32 = 32;
/// The pool compacts if that frees this share of its memory, as a divisor, ...
const FREEABLE_SHARE: usize = 32;
/// ... and frees at most this many bytes at once, because other threads wait.
const SHRINK_BYTES: usize = 1 << 20;

impl<K> Core<K> {
    /// Stores the pieces of a value. Returns its first slot, which has no key yet.
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
        self.figures.stored += packed.len as u64;
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

    /// Stores bytes for a slot, and evicts values while there is no room.
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
                        // The slots of removed values must be given back first.
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
        let pages = self.limit.saturating_sub(beside) / uzram::page_size();
        self.pool.pages().set_limit(Some(pages));
    }

    /// Compacts the pool if that frees much memory. Returns true if it has.
    fn compact(&self) -> bool {
        let bytes = self.pool.pages().used() * uzram::page_size();
        self.pool.freeable() > bytes / FREEABLE_SHARE && self.pool.shrink(SHRINK_BYTES) > 0
    }

    /// Gives back some of the memory of objects that were stored again elsewhere. Returns true if
    /// there was any.
    pub fn shrink_pool(&self) -> bool {
        self.pool.shrink(SHRINK_BYTES) > 0
    }

    /// Makes room for slots, and for a new entry in the table or its growth.
    fn make_room_for_slots(&mut self, count: usize, spared: Option<u32>, out: &mut Departed<K>) {
        loop {
            let grows = spared.is_none() && self.table.len() == self.table.capacity();
            // The table doubles while the old one still exists.
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
