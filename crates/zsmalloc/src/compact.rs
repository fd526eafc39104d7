//! Compaction: objects of the emptiest zspages move to the fullest, so that pages become free.
//!
//! A move copies first and then swings the owner's word by compare-and-swap, all under the class's lock: a
//! word that is locked is left alone, so no reader waits for a move and none moves under a reader (I3).

use crate::class::Class;
use crate::core::Owner;
use crate::locked::{Locked, Movable};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::word::{Place, Value};
use crate::{Core, core::sealed};
use page::page_size;

/// An owner's words, for a mover.
struct Words<'o, O>(&'o O);

impl<O: sealed::Owner> Movable for Words<'_, O> {
    fn len_at(&self, index: u32, offset: u64) -> Option<usize> {
        let place = self.0.word(index)?.unlocked()?.decode().ok()?;
        (place.offset == offset).then_some(place.len)
    }

    fn swing(&self, index: u32, from: u64, to: u64) -> bool {
        let Some(word) = self.0.word(index) else { return false };
        let Some(value) = word.unlocked() else { return false };
        match value.decode() {
            Ok(place) if place.offset == from => {
                word.swing(value, Value::object(Place { offset: to, ..place }))
            }
            _ => false,
        }
    }
}

impl<O: Owner> Core<O> {
    /// Moves objects together in every class, the largest first; pages freed. Returns 0 at once while
    /// another thread compacts.
    pub fn compact(&self) -> usize {
        self.shrink(usize::MAX)
    }

    /// As [`compact`](Self::compact), until `bytes` bytes were freed.
    pub fn shrink(&self, bytes: usize) -> usize {
        self.whole();
        let wanted = bytes.div_ceil(page_size());
        let parts = self.parts();
        if parts.compacting.swap(true, Acquire) {
            return 0;
        }
        let mut freed = 0;
        for class in parts.classes.iter().rev() {
            if freed >= wanted {
                break;
            }
            freed += self.compact_class(class, wanted - freed);
        }
        parts.compacted.fetch_add(freed as u64, Relaxed);
        parts.compacting.store(false, Release);
        freed
    }

    /// Empties zspages of one class until nothing more can be freed, or what remains is pinned; pages freed,
    /// less those that had to be committed for it. The lock is dropped after each zspage, for those who wait.
    fn compact_class(&self, class: &Class, wanted: usize) -> usize {
        let parts = self.parts();
        let (mut freed, mut spent) = (0, 0);
        while freed < wanted + spent {
            let mut locked = Locked::new(parts, class);
            let Some((source, target)) = locked.ends() else { break };
            let before = locked.state.committed;
            let moved = locked.migrate(source, target, &Words(self.owner()));
            spent += (locked.state.committed - before) as usize;
            freed += locked.release(source) as usize;
            if moved == 0 {
                break;
            }
        }
        freed.saturating_sub(spent)
    }

    /// Bytes of pages that [`compact`](Self::compact) could free, were nothing pinned.
    pub fn freeable(&self) -> usize {
        let pages: u64 = self.classes().iter().map(|stat| stat.freeable()).sum();
        pages as usize * page_size()
    }

    /// Pages that compaction freed so far.
    pub fn pages_compacted(&self) -> u64 {
        self.parts().compacted.load(Relaxed)
    }
}
