//! The data that the cache's lock protects: the values, and their limit.
//!
//! Keys are returned in [`Departed`], so that they are dropped after the lock is released.

use super::coder::Coder;
use super::pieces::Pieces;
use super::samples::Due;
use super::slots::Use;
use super::terms::{Departed, Stats};
use super::values::Values;
use crate::Error;
use crate::policy::{LEFT_SHARE, MARGIN, MARGIN_SHARE};
use std::sync::Arc;

/// The data that the cache's lock protects.
#[derive(Debug)]
pub struct Core<K> {
    pub values: Values<K>,
    pub limit: usize,
    /// The next step towards a trained dictionary. The step is due when enough small values are
    /// stored.
    due: Option<Due>,
    /// The counts of look-ups and evictions.
    pub stats: Stats,
    /// Whether evicted values are returned to the caller.
    pub wants_evicted: bool,
    /// Whether values are being packed again, slot after slot.
    pub repacks: bool,
}

impl<K> Core<K> {
    /// Returns an empty core, which can use at most `limit` bytes of memory.
    pub fn new(pieces: Pieces, coder: Arc<Coder>, limit: usize, due: Option<Due>) -> Self {
        let (values, stats) = (Values::new(pieces, coder), Stats { limit, ..Stats::default() });
        Core { values, limit, due, stats, wants_evicted: false, repacks: false }
    }

    /// Returns the total number of bytes of memory used.
    pub fn held(&self) -> usize {
        self.fixed_bytes() + self.values.bytes()
    }

    /// Returns the number of bytes of memory that are used for everything except values.
    fn fixed_bytes(&self) -> usize {
        let due = self.due.as_ref().map_or(0, Due::memory);
        size_of::<Self>() + self.values.coders.bytes() + due
    }

    /// Returns the number of bytes of memory that the cache uses for everything except its values.
    /// The memory that the pool allocates at its first use is included.
    pub fn empty_bytes(&self) -> usize {
        self.fixed_bytes() + self.values.pieces.begun_bytes
    }

    /// Returns the number of bytes that are kept free for growing structures.
    pub fn margin(&self) -> usize {
        (self.limit / MARGIN_SHARE).clamp(MARGIN.0, MARGIN.1)
    }

    /// Sets the limit of the pool's pages: the cache's limit minus all other memory, the margin and
    /// `bytes`.
    pub fn limit_pages(&self, bytes: usize) {
        // Saturates, because the pool can free pages between the calls of `held` and `page_bytes`.
        let beside = self.held().saturating_sub(self.values.pieces.page_bytes());
        self.values.pieces.limit_pages(self.limit.saturating_sub(beside + self.margin() + bytes));
    }

    /// Returns the statistics.
    pub fn stats(&self) -> Stats {
        Stats {
            entries: self.values.len(),
            held: self.held(),
            stored: self.values.stored,
            compressed: self.values.pieces.compressed,
            dictionary: self.values.coders.current().dictionary_bytes,
            ..self.stats
        }
    }

    /// Evicts the least recently used value except `spared`. Returns false if no such value exists.
    pub fn evict(&mut self, spared: Option<u32>, out: &mut Departed<K>) -> bool {
        let oldest = self.values.slots.by_age().find(|&first| Some(first) != spared);
        let Some(first) = oldest else { return false };
        // If memory for a copy can't be allocated, the value is evicted without a report.
        let packed = self.wants_evicted.then(|| self.values.packed(first).ok()).flatten();
        if let Some(key) = self.values.remove(first) {
            match packed {
                Some(packed) => out.evicted.push((key, packed)),
                None => out.keys.push(key),
            }
        }
        self.stats.evictions += 1;
        true
    }

    /// Evicts values until `bytes` more bytes fit within the limit, or only the value `spared` is
    /// left. Returns true if the bytes fit. `spared` holds the number of the value's first slot,
    /// and is updated if that number changes.
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
            if self.values.slots.is_sparse() {
                self.shrink(spared, out);
            } else if !self.evict(*spared, out) {
                self.shrink(spared, out);
                return self.held() + bytes <= self.limit;
            }
        }
    }

    /// Removes all values.
    pub fn clear(&mut self, out: &mut Departed<K>) {
        while let Some(first) = self.values.slots.oldest() {
            out.keys.extend(self.values.remove(first));
        }
        self.values.renew();
    }

    /// Releases some of the memory that removed values leave behind: slots, entries of the table,
    /// entries of the pool. Until its release, this memory counts towards the limit. Slots may get
    /// other numbers.
    pub fn tend(&mut self, out: &mut Departed<K>) {
        self.values.drop_unused();
        if self.values.len() == 0 {
            let left = self.held() - self.empty_bytes().min(self.held());
            if left > self.limit / LEFT_SHARE {
                self.values.renew();
            }
        } else if self.values.slots.is_sparse() && !self.repacks {
            out.keys.extend(self.values.vacate_last(&mut None));
            self.values.shrink_tables();
        }
    }

    /// Releases the memory that removed values leave behind. Releases the last slots until the set
    /// of slots is no longer sparse. After the slots, releases unused memory of the table and the
    /// pool.
    pub fn shrink(&mut self, watched: &mut Option<u32>, out: &mut Departed<K>) {
        while self.values.slots.is_sparse() {
            out.keys.extend(self.values.vacate_last(watched));
        }
        self.values.shrink_tables();
        self.values.pieces.pool.trim();
    }

    /// Returns the next step towards a dictionary if it is due. It is taken after the lock is
    /// released.
    pub fn take_due(&mut self) -> Option<Due> {
        let small = self.values.small_stored;
        self.due.take_if(|due| small >= due.from)
    }

    /// Sets the next step towards a dictionary, if it fits within the limit.
    pub fn set_due(&mut self, due: Due, out: &mut Departed<K>) {
        if self.make_room(due.memory(), &mut self.values.slots.youngest(), out) {
            self.due = Some(due);
        }
    }

    /// Uses a trained coder for all later values, if the coder fits within the limit. Returns
    /// whether the coder is used.
    pub fn adopt(&mut self, coder: Arc<Coder>, out: &mut Departed<K>) -> bool {
        let mut youngest = self.values.slots.youngest();
        self.repacks = self.values.coders.by_form[1].is_none()
            && self.make_room(coder.bytes(), &mut youngest, out);
        if self.repacks {
            self.values.coders.by_form[1] = Some(coder);
            self.values.drop_unused();
        }
        self.repacks
    }

    /// Packs pieces again with the trained coder, from slot `from` on, until `most` bytes were
    /// packed. Returns the slot at which to continue, if more slots remain.
    ///
    /// # Errors
    /// Fails if memory can't be allocated.
    pub fn repack(&mut self, from: u32, most: usize) -> Result<Option<u32>, Error> {
        let [Some(first), Some(trained)] = self.values.coders.by_form.clone() else {
            return Ok(None);
        };
        self.limit_pages(0);
        let (mut done, mut piece) = (0, from);
        while piece < self.values.slots.count() && done < most {
            let slot = &self.values.slots[piece];
            let len = (slot.len as usize).min(trained.block);
            if slot.used_as != Use::Free && len > 0 {
                self.values.pieces.repack(piece, len, &first, &trained)?;
                done += len;
            }
            piece += 1;
        }
        self.values.drop_unused();
        Ok((piece < self.values.slots.count()).then_some(piece))
    }
}
