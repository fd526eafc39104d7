//! Compaction: objects of the emptiest zspages move to the fullest, so that pages become free.
//!
//! A move copies first and then swings the owner's word by compare-and-swap, all under the class's lock: a
//! word that is locked is left alone, so no reader waits for a move and none moves under a reader (I3).

use crate::class::{Class, ClassState};
use crate::core::Owner;
use crate::locked::{Locked, Movable};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::word::{Place, Value};
use crate::{Core, core::sealed};
use page::page_size;

/// Objects moved at most before the class's lock is dropped.
const STEP: usize = 64;

/// What one step did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Objects moved; 0 when there was nothing to do, or all that was is pinned.
    pub(crate) moved: usize,
    /// Pages freed.
    pub(crate) freed: usize,
    /// Pages committed for it.
    pub(crate) spent: usize,
}

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
    /// Moves objects together in every class, the largest first, and gives back the pages kept ready;
    /// pages freed. Returns 0 at once while another thread compacts.
    pub fn compact(&self) -> usize {
        self.shrink(usize::MAX) + self.trim()
    }

    /// As [`compact`](Self::compact), until `bytes` bytes were freed.
    pub fn shrink(&self, bytes: usize) -> usize {
        self.whole();
        let wanted = bytes.div_ceil(page_size());
        let parts = self.parts();
        if parts.compacting.swap(true, Acquire) {
            return 0;
        }
        let mut total = 0;
        for class in parts.classes.iter().rev() {
            let (mut freed, mut spent) = (0, 0);
            while total + freed < wanted.saturating_add(spent) {
                let step = self.compact_step(class, |_, _| true);
                (freed, spent) = (freed + step.freed, spent + step.spent);
                if step.moved == 0 {
                    break;
                }
            }
            total += freed.saturating_sub(spent);
        }
        parts.compacted.fetch_add(total as u64, Relaxed);
        parts.compacting.store(false, Release);
        total
    }

    /// Moves some objects of one class, under its lock, if `worth` says so and it can free pages. The lock
    /// is dropped after each step, for those who wait.
    pub(crate) fn compact_step(
        &self,
        class: &Class,
        worth: impl Fn(&Class, &ClassState) -> bool,
    ) -> Step {
        let mut locked = Locked::new(self.parts(), class);
        let Some((source, target)) = locked.ends().filter(|_| worth(class, &locked.state)) else {
            return Step::default();
        };
        let before = locked.state.committed;
        let moved = locked.migrate(source, target, STEP, &Words(self.owner()));
        let spent = (locked.state.committed - before) as usize;
        Step { moved, spent, freed: locked.release(source) as usize }
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
