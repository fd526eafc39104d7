//! Releases the memory that removed values leave behind: slots, places in the table, entries of the
//! pool. This memory counts towards the limit, so it would not be available to other values.

use super::super::new_pool::new_pool;
use super::super::slots::{NONE, Use};
use super::{Core, Departed, spread};
use hashbrown::HashTable;
use zsmalloc::Content;

/// An empty cache is reset if the memory left behind exceeds 1/LEFT_SHARE of the limit.
const LEFT_SHARE: usize = 64;
/// The table shrinks if its capacity exceeds TABLE_ROOM times the number of its values, ...
const TABLE_ROOM: usize = 4;
/// ... and exceeds TABLE_LEAST.
const TABLE_LEAST: usize = 256;

impl<K> Core<K> {
    /// Releases some of the memory left behind. Slots may get other numbers.
    pub fn tend(&mut self, out: &mut Departed<K>) {
        self.drop_unused();
        if self.table.is_empty() {
            let left = self.held() - self.empty_bytes().min(self.held());
            if left > self.limit / LEFT_SHARE {
                self.renew();
            }
        } else if self.slots.is_sparse() && !self.repacks {
            self.vacate_last(&mut None, out);
            self.shrink_tables();
        }
    }

    /// Releases the memory left behind, until a sufficient share of the slots is in use.
    pub(super) fn shrink(&mut self, watched: &mut Option<u32>, out: &mut Departed<K>) {
        while self.slots.is_sparse() {
            self.vacate_last(watched, out);
        }
        self.shrink_tables();
        self.pool.trim();
    }

    /// Resets a cache without values.
    pub(super) fn renew(&mut self) {
        debug_assert!(self.table.is_empty());
        self.table = HashTable::new();
        self.slots.renew();
        self.pool.trim();
        if self.pool.bytes() > self.new_pool_bytes {
            // If the system refuses a new pool, the old one stays in use.
            self.pool = new_pool(self.order).unwrap_or_else(|_| self.pool.clone());
        }
    }

    /// Returns the number of bytes of memory that the cache uses for everything except its values,
    /// including the memory that the pool allocates at its first use.
    pub fn empty_bytes(&self) -> usize {
        self.fixed_bytes() + self.begun_bytes
    }

    fn shrink_tables(&mut self) {
        if self.table.capacity() > TABLE_LEAST.max(TABLE_ROOM * self.table.len()) {
            let slots = &self.slots;
            let hash = |&index: &u32| spread(slots.get(index).hash);
            self.table.shrink_to(2 * self.table.len(), hash);
        }
        // The pool releases entries if that is worthwhile.
        self.pool.tidy(&mut || true);
    }

    /// Moves the contents of the last slots to free slots, and releases the last slots. If the slot
    /// `watched` is moved, updates its number.
    fn vacate_last(&mut self, watched: &mut Option<u32>, out: &mut Departed<K>) {
        // No limit is needed, because objects are freed before they are stored again.
        self.pool.pages().set_limit(None);
        let mut lost = Vec::new();
        for (from, to) in self.slots.vacate_last() {
            if *watched == Some(from) {
                *watched = Some(to);
            }
            let slot = self.slots.get(to);
            if slot.used_as == Use::First {
                let place = self.table.find_mut(spread(slot.hash), |&index| index == from);
                place.into_iter().for_each(|index| *index = to);
            }
            if !self.move_object(from, to) {
                lost.push(to);
            }
        }
        for piece in lost {
            let first = self.slots.first_of(piece);
            if first != NONE {
                *watched = watched.filter(|&index| index != first);
                out.keys.extend(self.remove(first));
            }
        }
    }

    /// Moves an object to another entry. Returns false if the system refused memory.
    fn move_object(&self, from: u32, to: u32) -> bool {
        let Some(entry) = self.pool.lock_existing(from) else { return true };
        let Content::Object { bytes, flags } = entry.content() else { return true };
        let mut copy = Vec::new();
        if copy.try_reserve_exact(bytes.len()).is_err() {
            return false;
        }
        copy.extend_from_slice(bytes);
        entry.set_payload(0);
        self.pool.lock(to).is_ok_and(|entry| entry.store(&copy, flags).is_ok())
    }
}
