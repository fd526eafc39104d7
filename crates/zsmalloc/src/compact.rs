//! Compaction: objects of the emptiest zspages move to the fullest, so that pages become free.
//!
//! A move copies first and then swings the owner's word by compare-and-swap, all under the class's lock: a
//! word that is locked is left alone, so no reader waits for a move and none moves under a reader (I3).

use crate::class::{Class, ClassState};
use crate::core::Owner;
use crate::locked::{Locked, Movable};
use crate::parts::Parts;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::word::{Place, Value};
use crate::{Core, core::sealed};
use page::page_size;

/// Objects moved at most before the class's lock is dropped.
const STEP: usize = 64;
/// Zspages left alone at most, since all that is left in them is pinned, before a class is.
const SKIPPED_MAX: usize = 32;

/// That one thread compacts, which is this one.
pub(crate) struct Compacting<'p>(&'p Parts);

impl<'p> Compacting<'p> {
    /// Begins, unless another thread compacts.
    pub(crate) fn begin(parts: &'p Parts) -> Option<Self> {
        // Not `then_some`: what it is given is dropped where it is not wanted, which would end the other's.
        (!parts.compacting.swap(true, Acquire)).then(|| Compacting(parts))
    }
}

impl Drop for Compacting<'_> {
    fn drop(&mut self) {
        self.0.compacting.store(false, Release);
    }
}

/// What was done in a class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Objects moved.
    pub(crate) moved: usize,
    /// Pages freed.
    freed: usize,
    /// Pages committed for it.
    spent: usize,
}

impl Done {
    /// Pages gained.
    pub(crate) fn gained(&self) -> usize {
        self.freed.saturating_sub(self.spent)
    }
}

/// An owner's words, for a mover.
struct Moved<'o, O>(&'o O);

impl<O: sealed::Owner> Movable for Moved<'_, O> {
    fn len_at(&self, index: u32, offset: u64) -> Option<usize> {
        let place = self.0.words().with(index, |word, _| word.unlocked())??.decode().ok()?;
        (place.offset == offset).then_some(place.len)
    }

    fn swing(&self, index: u32, from: u64, to: u64) -> bool {
        let swung = self.0.words().with(index, |word, _| {
            let value = word.unlocked()?;
            let place = value.decode().ok().filter(|place| place.offset == from)?;
            Some(word.swing(value, Value::object(Place { offset: to, ..place })))
        });
        swung.flatten().unwrap_or(false)
    }
}

impl<O: Owner> Core<O> {
    /// Moves objects together in every class, the largest first, and gives back the pages kept ready;
    /// pages freed. While another thread compacts, only the ready pages go.
    pub fn compact(&self) -> usize {
        self.shrink(usize::MAX) + self.trim()
    }

    /// As [`compact`](Self::compact), until `bytes` bytes were freed.
    pub fn shrink(&self, bytes: usize) -> usize {
        self.whole();
        let wanted = bytes.div_ceil(page_size());
        let parts = self.parts();
        let Some(_alone) = Compacting::begin(parts) else { return 0 };
        let mut total = 0;
        for class in parts.classes.iter().rev() {
            let go_on = |done: &Done| total + done.gained() < wanted;
            total += self.compact_class(class, |_, _| true, go_on).gained();
        }
        total
    }

    /// Moves objects of one class as long as `worth` says so of it, that can free pages, and `go_on` of
    /// what was done. The lock is dropped after each step, for those who wait. A zspage of which nothing
    /// can be moved is passed over.
    pub(crate) fn compact_class(
        &self,
        class: &Class,
        worth: impl Fn(&Class, &ClassState) -> bool,
        mut go_on: impl FnMut(&Done) -> bool,
    ) -> Done {
        let parts = self.parts();
        let mut done = Done::default();
        let mut skipped = Vec::new();
        while skipped.len() < SKIPPED_MAX && go_on(&done) {
            let mut locked = Locked::new(parts, class);
            if !worth(class, &locked.state) {
                break;
            }
            let Some((source, target)) = locked.ends(&skipped) else { break };
            let before = locked.state.committed;
            let moved = locked.migrate(source, target, STEP, &Moved(self.owner()));
            done.spent += (locked.state.committed - before) as usize;
            done.freed += locked.release(source) as usize;
            done.moved += moved;
            if moved == 0 {
                skipped.push(source);
            }
        }
        parts.compacted.fetch_add(done.gained() as u64, Relaxed);
        done
    }

    /// Bytes of pages that [`compact`](Self::compact) could free, were nothing pinned.
    pub fn freeable(&self) -> usize {
        let pages: u64 = self.classes().iter().map(|stat| stat.gain()).sum();
        pages as usize * page_size()
    }

    /// Pages that compaction freed so far.
    pub fn pages_compacted(&self) -> u64 {
        self.parts().compacted.load(Relaxed)
    }
}
