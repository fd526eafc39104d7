//! The pieces of a value are stored, and others make room for them.

use super::super::coder::{Form, Packed};
use super::super::samples::small_len;
use super::super::slots::{NONE, Use};
use super::{Core, Departed, Refusal, spread};

/// So many times a value has to make room before the pool is asked to move objects together.
const REFUSALS: u32 = 32;
/// The pool moves objects together if that frees this part of its memory, ...
const FREEABLE_SHARE: usize = 32;
/// ... and frees no more than this at once, in bytes, as others wait.
const SHRINK_BYTES: usize = 1 << 20;

impl<K> Core<K> {
    /// Stores the pieces of a value, and returns its first slot, which has no key yet.
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

    /// Frees the pieces of a value that could not be stored in whole.
    fn give_up(&mut self, first: u32) {
        if first != NONE {
            self.slots.get_mut(first).len = 0;
            self.free(first);
        }
    }

    /// Stores bytes for a slot, and evicts as long as there is no room for them.
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
                        // Slots of values that went are to go first.
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

    /// Leaves to the pool's pages what nothing else takes, and `bytes` less.
    pub(super) fn limit_pages(&self, bytes: usize) {
        let beside = self.beside_pages() + self.margin() + bytes;
        let pages = self.limit.saturating_sub(beside) / uzram::page_size();
        self.pool.pages().set_limit(Some(pages));
    }

    /// Has the pool move objects together if that frees much, and returns whether it has.
    fn compact(&self) -> bool {
        let bytes = self.pool.pages().used() * uzram::page_size();
        self.pool.freeable() > bytes / FREEABLE_SHARE && self.pool.shrink(SHRINK_BYTES) > 0
    }

    /// Gives back some of what objects left that were stored again elsewhere, and returns whether
    /// there was anything.
    pub fn shrink_pool(&self) -> bool {
        self.pool.shrink(SHRINK_BYTES) > 0
    }

    /// Makes room for slots, and for the table to grow, or for a place in it.
    fn make_room_for_slots(&mut self, count: usize, spared: Option<u32>, out: &mut Departed<K>) {
        loop {
            let grows = spared.is_none() && self.table.len() == self.table.capacity();
            // The table doubles, with the one before still there.
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
