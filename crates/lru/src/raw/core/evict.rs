//! Removal of values, on request or to free memory for others.

use super::super::coder::Form;
use super::super::samples::small_len;
use super::super::slots::NONE;
use super::{Core, Departed, spread};
use zsmalloc::Content;

impl<K> Core<K> {
    /// Removes a value. Returns its key.
    pub fn remove(&mut self, first: u32) -> Option<K> {
        let slot = self.slots.get(first);
        let (hash, key_bytes) = (slot.hash, slot.key_bytes);
        if let Ok(entry) = self.table.find_entry(spread(hash), |&index| index == first) {
            entry.remove();
        }
        self.slots.unlink(first);
        self.key_bytes -= key_bytes as usize;
        self.free(first)
    }

    /// Frees the pieces of a value that is neither in the table nor in the order.
    pub(super) fn free(&mut self, first: u32) -> Option<K> {
        let len = self.slots.get(first).len;
        self.stats.stored -= u64::from(len);
        self.small_stored -= small_len(len as usize, self.block);
        let (mut piece, mut key) = (first, None);
        while piece != NONE {
            self.free_piece(piece);
            let (of_first, next) = self.slots.give_back(piece);
            key = key.or(of_first);
            piece = next;
        }
        key
    }

    /// Frees the object of a piece, and subtracts the piece from the counts.
    fn free_piece(&mut self, piece: u32) {
        let Some(entry) = self.pool.lock_existing(piece) else { return };
        let old = match entry.content() {
            Content::Object { bytes, flags } => Some((bytes.len(), Form::of_flags(flags))),
            Content::Inline(_) => None,
        };
        if let Some((len, form)) = old {
            entry.set_payload(0);
            self.count_piece(len, form, false);
        }
    }

    pub(super) fn count_piece(&mut self, len: usize, form: Form, is_new: bool) {
        let compressed = &mut self.stats.compressed;
        *compressed = if is_new { *compressed + len as u64 } else { *compressed - len as u64 };
        if form != Form::Raw {
            let pieces = &mut self.pieces_of[form as usize - 1];
            *pieces = if is_new { *pieces + 1 } else { *pieces - 1 };
        }
    }

    /// Evicts the least recently used value except `spared`. Returns false if no such value exists.
    pub(super) fn evict(&mut self, spared: Option<u32>, out: &mut Departed<K>) -> bool {
        let oldest = self.slots.oldest();
        let first = match oldest {
            Some(first) if Some(first) == spared => self.slots.younger(first),
            first => first,
        };
        let Some(first) = first else { return false };
        // If memory for a copy can't be allocated, the value is evicted without a report.
        let packed = self.wants_evicted.then(|| self.packed(first).ok()).flatten();
        if let Some(key) = self.remove(first) {
            match packed {
                Some(packed) => out.evicted.push((key, packed)),
                None => out.keys.push(key),
            }
        }
        self.stats.evictions += 1;
        true
    }

    /// Evicts values until `bytes` more bytes fit within the limit, or only `spared` is left.
    /// Returns true if the bytes fit. The slot of `spared` may get another number.
    pub fn make_room(
        &mut self,
        bytes: usize,
        spared: &mut Option<u32>,
        out: &mut Departed<K>,
    ) -> bool {
        loop {
            if self.held() + bytes <= self.limit {
                return true;
            }
            if self.slots.is_sparse() {
                self.shrink(spared, out);
            } else if !self.evict(*spared, out) {
                self.shrink(spared, out);
                return self.held() + bytes <= self.limit;
            }
        }
    }

    /// Removes all values.
    pub fn clear(&mut self, out: &mut Departed<K>) {
        while let Some(first) = self.slots.oldest() {
            out.keys.extend(self.remove(first));
        }
        self.renew();
    }
}
