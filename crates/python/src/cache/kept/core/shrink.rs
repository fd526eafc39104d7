//! What values leave behind when they go is given back: slots, places in the table, the pool's
//! entries. It is a part of the limit that no other value would have.

use super::super::new_pool::new_pool;
use super::super::slots::{NONE, Use};
use super::{Core, Departed, spread};
use hashbrown::HashTable;
use uzram::zsmalloc::Content;

/// An empty cache begins anew if what was left behind takes this part of its limit.
const LEFT_SHARE: usize = 64;
/// The table gets smaller if it has room for so many times its values, ...
const TABLE_ROOM: usize = 4;
/// ... and for more than so many.
const TABLE_LEAST: usize = 256;

impl<K> Core<K> {
    /// Gives back some of what was left behind. Slots may get other numbers.
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

    /// Gives back what was left behind, until slots in use are no small part of all.
    pub(super) fn shrink(&mut self, watched: &mut Option<u32>, out: &mut Departed<K>) {
        while self.slots.is_sparse() {
            self.vacate_last(watched, out);
        }
        self.shrink_tables();
        self.pool.trim();
    }

    /// Begins anew, as there are no values.
    pub(super) fn renew(&mut self) {
        debug_assert!(self.table.is_empty());
        self.table = HashTable::new();
        self.slots.renew();
        self.pool.trim();
        if self.pool.bytes() > self.new_pool_bytes {
            // Where the system refuses, the one before goes on.
            self.pool = new_pool(self.order).unwrap_or_else(|_| self.pool.clone());
        }
    }

    /// Returns the bytes of memory that a cache takes beside its values, with a first one.
    pub fn empty_bytes(&self) -> usize {
        self.fixed_bytes() + self.begun_bytes
    }

    fn shrink_tables(&mut self) {
        if self.table.capacity() > TABLE_LEAST.max(TABLE_ROOM * self.table.len()) {
            let slots = &self.slots;
            let hash = |&index: &u32| spread(slots.get(index).hash);
            self.table.shrink_to(2 * self.table.len(), hash);
        }
        // It does so if that is worth it.
        self.pool.tidy(&mut || true);
    }

    /// Moves what is in the last slots, and gives these back. `watched` is one that may be moved.
    fn vacate_last(&mut self, watched: &mut Option<u32>, out: &mut Departed<K>) {
        // Objects are freed before they are stored again.
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

    /// Moves an object to another entry, and returns whether the system had memory for that.
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
