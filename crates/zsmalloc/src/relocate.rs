//! Moving objects: within a class, together; and out of a class, to the one that the plan has for
//! them.
//!
//! ```text
//!   entry's number -> entry names this place, and is unlocked? -> slot taken -> bytes copied
//!     -> entry retargeted by compare-and-swap -> old slot freed (or the new one, if someone came in between)
//! ```
//! All of it under the lock of the class the object leaves: an object is written again only under
//! that, and a free waits for it. The lock of another class that it goes to is tried for, never
//! waited for.

use crate::Error;
use crate::class::FULL;
use crate::class_guard::{ClassGuard, Search, Taken};
use crate::policy::{ALIKE_MAX, SCAN_MAX};
use page::ExtentId;

/// How the entries of moved objects are changed.
pub(crate) trait Movable {
    /// Length of the object that entry `index` names, if it is at `offset` and no one has the entry
    /// locked.
    fn len_at(&self, index: u32, offset: u64) -> Option<usize>;

    /// Makes entry `index` name `to`, if it still names `from` and no one has it locked.
    fn retarget(&self, index: u32, from: u64, to: u64) -> bool;
}

/// What was moved in a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) objects: usize,
    pub(crate) bytes: u64,
    /// Pages on which nothing lived before.
    pub(crate) entered: usize,
    /// Pages on which nothing lives any more.
    pub(crate) emptied: usize,
    /// Why it went no further, where that can be helped.
    pub(crate) obstacle: Option<Obstacle>,
}

/// What to do before going on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Obstacle {
    /// The class at this position has no zspage with room.
    NoRoom(usize),
    /// Another thread has the class that an object is to go to.
    Busy,
}

impl ClassGuard<'_> {
    /// The zspages to move objects from and to, if that can free pages, or a zspage: the emptiest
    /// and the fullest that are neither empty nor full. Of those about as full, objects leave the
    /// last and go to the first, so that what manages zspages stays together too. Where zspages are
    /// committed page by page, and only one is left, its objects can move down within it. None of
    /// `skipped` is to give objects.
    pub(crate) fn pick_source_and_target(
        &self,
        skipped: &[ExtentId],
    ) -> Option<(ExtentId, ExtentId)> {
        let needed = self.state.inuse.div_ceil(self.class().objects());
        let saves_pages = self.class().gain(&self.state) > 0;
        if !saves_pages && self.state.zspages <= needed {
            return None;
        }
        let of_group = |group| self.group(group).take(ALIKE_MAX);
        let mut emptiest = (1..FULL).map(of_group);
        let source = emptiest.find_map(|ids| ids.filter(|id| !skipped.contains(id)).max())?;
        let mut fullest = (1..FULL).rev().map(of_group);
        let target = fullest.find_map(|ids| ids.filter(|&id| id != source).min());
        let target = target.or((saves_pages && !self.class().commits_whole).then_some(source))?;
        Some((source, target))
    }

    /// Moves at most `most` objects of `source`, the highest first, to the lowest free slots of
    /// `target`. Objects whose entries are locked, or do not name them yet, stay.
    pub(crate) fn migrate(
        &mut self,
        source: ExtentId,
        target: ExtentId,
        most: usize,
        owner: &dyn Movable,
    ) -> Moved {
        let mut moved = Moved::default();
        for slot in (0..self.class().objects()).rev() {
            let Some(index) = self.header(source).entry(slot) else { continue };
            let Some(lowest) = self.header(target).lowest_free() else { break };
            let is_below = |free: u32| source != target || free < slot;
            if moved.objects == most || !is_below(lowest) {
                break;
            }
            let from = self.offset(source, slot);
            let Some(len) = owner.len_at(index, from) else { continue };
            let Some((free, entered)) = self.alloc_slot_for(target, lowest, index, is_below) else {
                break;
            };
            let to = self.offset(target, free);
            self.inner().memory.copy(self, from, to, len);
            if owner.retarget(index, from, to) {
                moved.add(len, entered, self.clear_slot(source, slot));
            } else {
                self.clear_slot(target, free);
            }
        }
        moved
    }

    /// Takes slot `lowest` of a zspage, or at the pool's limit one on committed pages that will do;
    /// the slot, and pages on which nothing lived before.
    fn alloc_slot_for(
        &mut self,
        target: ExtentId,
        lowest: u32,
        entry: u32,
        will_do: impl Fn(u32) -> bool,
    ) -> Option<(u32, u32)> {
        if let Ok(entered) = self.alloc_slot_at(target, lowest, entry) {
            return Some((lowest, entered));
        }
        let free = self.lowest_committed(target).filter(|&free| will_do(free))?;
        self.alloc_slot_at(target, free, entry).ok().map(|entered| (free, entered))
    }

    /// Moves at most `most` objects of `source` to the classes that the plan has for them, where
    /// that is another.
    pub(crate) fn reclassify(
        &mut self,
        source: ExtentId,
        most: usize,
        owner: &dyn Movable,
    ) -> Moved {
        let (inner, class) = (self.inner(), self.class());
        let mut moved = Moved::default();
        let mut target: Option<ClassGuard<'_>> = None;
        for slot in (0..class.objects()).rev() {
            if moved.objects == most {
                break;
            }
            let Some(index) = self.header(source).entry(slot) else { continue };
            let from = self.offset(source, slot);
            let Some(len) = owner.len_at(index, from) else { continue };
            let Ok(wanted) = inner.class_of(len) else { continue };
            if wanted.position == class.position {
                continue;
            }
            if target.as_ref().is_none_or(|held| held.class().position != wanted.position) {
                drop(target.take());
                target = ClassGuard::try_new(inner, wanted);
            }
            let Some(to) = target.as_mut() else {
                moved.obstacle = Some(Obstacle::Busy);
                break;
            };
            let taken = match to.alloc_for_move(index) {
                Ok(Some(taken)) => taken,
                Ok(None) => {
                    moved.obstacle = Some(Obstacle::NoRoom(wanted.position as usize));
                    break;
                }
                Err(_limit) => break,
            };
            inner.memory.copy(self, from, taken.offset, len);
            if owner.retarget(index, from, taken.offset) {
                moved.add(len, taken.entered, self.free_slot(source, slot));
            } else {
                to.free_slot(taken.id, taken.slot);
            }
        }
        moved
    }

    /// A slot, at the limit one on committed pages; `None` where there is no zspage with room.
    fn alloc_for_move(&mut self, entry: u32) -> Result<Option<Taken>, Error> {
        self.alloc_slot(entry, Search::Lowest).or_else(|limit| {
            let taken = self.alloc_slot(entry, Search::Committed(SCAN_MAX))?;
            taken.map(Some).ok_or(limit)
        })
    }
}

impl Moved {
    fn add(&mut self, len: usize, entered: u32, emptied: u32) {
        self.objects += 1;
        self.bytes += len as u64;
        self.entered += entered as usize;
        self.emptied += emptied as usize;
    }
}
