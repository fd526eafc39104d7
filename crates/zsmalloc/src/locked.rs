//! What is done to the zspages of one class while its lock is held.
//!
//! Lock order: owner's word, class, then slab caches and the space (each the last one taken). Pages are
//! given back outside the lock: their slots are *held* meanwhile, by one thread per zspage.

use crate::Error;
use crate::background::is_worth_asking;
use crate::body::Body;
use crate::class::{Class, ClassState, FULL};
use crate::parts::Parts;
use crate::stat::ClassStat;
use crate::sync::{MutexGuard, Ordering::Relaxed};
use crate::zspage::Zspage;
use page::{ExtentId, PageSet, page_size};

/// Zspages looked at for a slot on committed pages, at the limit.
const SCAN_MAX: usize = 256;

/// A class with its lock held.
#[derive(Debug)]
pub(crate) struct Locked<'p> {
    parts: &'p Parts,
    class: &'p Class,
    pub(crate) state: MutexGuard<'p, ClassState>,
}

/// How the words of moved objects are changed.
pub(crate) trait Movable {
    /// Length of the object that word `index` names, if it is at `offset` and no one has the word locked.
    fn len_at(&self, index: u32, offset: u64) -> Option<usize>;

    /// Makes word `index` name `to`, if it still names `from` and no one has it locked.
    fn swing(&self, index: u32, from: u64, to: u64) -> bool;
}

/// Which free slots will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The lowest of the fullest zspage with room.
    Lowest,
    /// Only one whose pages are all committed: for a pool at its limit.
    Committed,
}

impl<'p> Locked<'p> {
    pub(crate) fn new(parts: &'p Parts, class: &'p Class) -> Self {
        Locked { parts, class, state: class.state.lock() }
    }

    pub(crate) fn class(&self) -> &'p Class {
        self.class
    }

    pub(crate) fn parts(&self) -> &'p Parts {
        self.parts
    }

    fn zspage(&self, id: ExtentId) -> &'p Zspage {
        &self.parts.memory.space.extent(id).data
    }

    pub(crate) fn body(&self, id: ExtentId) -> Body<'_> {
        self.parts.memory.body(self, id)
    }

    /// The zspages of a fullness group.
    pub(crate) fn group(&self, group: usize) -> impl Iterator<Item = ExtentId> {
        let first = ExtentId::from_raw(self.state.heads[group]);
        std::iter::successors(first, |&id| ExtentId::from_raw(self.zspage(id).next.load(Relaxed)))
    }

    /// Takes a slot for `owner` in the fullest zspage with room; its offset. `None` when none will do.
    pub(crate) fn take(&mut self, owner: u32, search: Search) -> Result<Option<u64>, Error> {
        let Some((id, slot)) = self.find(search) else { return Ok(None) };
        self.occupy(id, slot, owner)?;
        self.state.inuse += 1;
        Ok(Some(self.offset(id, slot)))
    }

    /// Offset of a slot in the pool's space.
    pub(crate) fn offset(&self, id: ExtentId, slot: u32) -> u64 {
        self.parts.memory.space.extent(id).start() + self.class.offset(slot)
    }

    /// Commits what a free slot needs, and takes it.
    fn occupy(&mut self, id: ExtentId, slot: u32, owner: u32) -> Result<(), Error> {
        let pages = self.class.pages_for(slot);
        let committed = &self.zspage(id).committed;
        let missing = pages.len() as u32 - committed.count(pages.clone());
        self.parts.memory.space.charge(missing)?;
        committed.insert(pages.clone());
        self.state.committed += missing as u64;
        self.body(id).take(slot, owner);
        let no_longer_ready = self.zspage(id).ready.remove(pages);
        self.state.ready -= no_longer_ready as u64;
        if no_longer_ready > 0 {
            self.parts.ready.fetch_sub(no_longer_ready as usize, Relaxed);
        }
        self.set_inuse(id, self.zspage(id).inuse() + 1);
        Ok(())
    }

    /// Makes a live slot free; whether that left pages on which nothing lives.
    fn vacate(&mut self, id: ExtentId, slot: u32) -> bool {
        self.body(id).give(slot);
        let left = self.zspage(id).inuse() - 1;
        let mut emptied = 0;
        for page in self.class.pages_for(slot) {
            if !self.is_live(id, page, left) {
                emptied += self.zspage(id).ready.insert(page..page + 1);
            }
        }
        self.set_inuse(id, left);
        self.state.ready += emptied as u64;
        self.parts.ready.fetch_add(emptied as usize, Relaxed);
        emptied > 0
    }

    /// Whether a page is needed by a zspage with `inuse` objects.
    pub(crate) fn is_live(&self, id: ExtentId, page: u32, inuse: u32) -> bool {
        inuse > 0
            && (self.class.whole || self.body(id).any_live(self.class.slots_of(page..page + 1)))
    }

    /// A free slot: fullest group first, head of its list first, lowest slot first.
    fn find(&self, search: Search) -> Option<(ExtentId, u32)> {
        let mut partial = (0..FULL).rev().flat_map(|group| self.group(group));
        match search {
            Search::Lowest => {
                partial.find_map(|id| self.body(id).lowest_free().map(|slot| (id, slot)))
            }
            Search::Committed if !self.has_committed_room() => None,
            Search::Committed => partial
                .take(SCAN_MAX)
                .find_map(|id| self.lowest_committed(id).map(|slot| (id, slot))),
        }
    }

    /// Whether the committed pages could hold another object, were the objects packed.
    fn has_committed_room(&self) -> bool {
        let bytes = self.state.committed * page_size() as u64;
        bytes >= (self.state.inuse + 1) * self.class.shape.size as u64
    }

    /// The lowest free slot of a zspage whose pages are all committed.
    fn lowest_committed(&self, id: ExtentId) -> Option<u32> {
        let committed = &self.zspage(id).committed;
        let body = self.body(id);
        let mut slot = body.lowest_free()?;
        while !committed.contains_all(self.class.pages_for(slot)) {
            slot = body.free_from(slot + 1)?;
        }
        Some(slot)
    }

    /// A zspage that has ready pages, and that no one is giving back at the moment.
    pub(crate) fn has_ready(&self, id: ExtentId) -> bool {
        let extent = self.parts.memory.space.extent(id);
        let is_ours = extent.pages() > 0
            && extent.tag() == self.class.position
            && !extent.data.body.load(Relaxed).is_null();
        is_ours && !extent.data.releasing() && !extent.data.ready.is_empty()
    }

    /// Destroys a zspage that was made for an object and has got none, if there is one.
    pub(crate) fn destroy_one_unused(self) {
        let unused = self.group(0).find(|&id| {
            let zspage = self.zspage(id);
            zspage.committed.is_empty() && !zspage.releasing()
        });
        if let Some(id) = unused {
            self.destroy_if_unused(id);
        }
    }

    /// Gives the slot at `offset` of zspage `id` back, and the pages on which nothing lives any more,
    /// but for those the pool keeps ready.
    ///
    /// Whether that leaves the class worth compacting.
    pub(crate) fn give(mut self, id: ExtentId, offset: u64) -> bool {
        let slot = self.class.slot_at(offset - self.parts.memory.space.extent(id).start());
        let emptied = self.vacate(id, slot);
        self.state.inuse -= 1;
        let worth_compacting = is_worth_asking(self.class, &self.state);
        if emptied && self.parts.ready_excess(self.class) {
            self.release(id);
        }
        worth_compacting
    }

    /// The zspages to move objects from and to, if that can free pages: the emptiest and the fullest that
    /// are neither empty nor full. Where zspages are committed page by page, and only one is left, its
    /// objects can move down within it. None of `skipped` is to give objects.
    pub(crate) fn ends(&self, skipped: &[ExtentId]) -> Option<(ExtentId, ExtentId)> {
        if ClassStat::new(self.class, &self.state).gain() == 0 {
            return None;
        }
        let mut emptiest = (1..FULL).flat_map(|group| self.group(group));
        let source = emptiest.find(|id| !skipped.contains(id))?;
        let fullest = (1..FULL).rev().flat_map(|group| self.group(group)).find(|&id| id != source);
        let target = fullest.or((!self.class.whole).then_some(source))?;
        Some((source, target))
    }

    /// Moves at most `most` objects of `source`, the highest first, to the lowest free slots of `target`;
    /// how many. Objects whose words are locked, or do not name them yet, stay.
    pub(crate) fn migrate(
        &mut self,
        source: ExtentId,
        target: ExtentId,
        most: usize,
        owner: &dyn Movable,
    ) -> usize {
        let mut moved = 0;
        for slot in (0..self.class.shape.objects as u32).rev() {
            let Some(index) = self.body(source).owner(slot) else { continue };
            let Some(lowest) = self.body(target).lowest_free() else { break };
            let is_below = |free: u32| source != target || free < slot;
            if moved == most || !is_below(lowest) {
                break;
            }
            let from = self.offset(source, slot);
            let Some(len) = owner.len_at(index, from) else { continue };
            let Some(free) = self.settle_on(target, lowest, index, is_below) else { break };
            let to = self.offset(target, free);
            self.parts.memory.copy(self, from, to, len);
            if owner.swing(index, from, to) {
                self.vacate(source, slot);
                moved += 1;
            } else {
                self.vacate(target, free);
            }
        }
        moved
    }

    /// Takes slot `lowest` of a zspage, or at the pool's limit one on committed pages that will do.
    fn settle_on(
        &mut self,
        target: ExtentId,
        lowest: u32,
        owner: u32,
        will_do: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if self.occupy(target, lowest, owner).is_ok() {
            return Some(lowest);
        }
        let free = self.lowest_committed(target).filter(|&free| will_do(free))?;
        self.occupy(target, free, owner).ok().map(|()| free)
    }

    /// Gives all ready pages of a zspage back to the system, and the zspage if that leaves it empty.
    /// The number of pages.
    pub(crate) fn release(mut self, id: ExtentId) -> u32 {
        let zspage = self.zspage(id);
        if zspage.releasing() {
            return 0; // the thread that does sees what became ready meanwhile
        }
        zspage.set_releasing(true);
        let mut total = 0;
        while !zspage.ready.is_empty() {
            let going = PageSet::default();
            going.copy_from(&zspage.ready);
            for pages in going.runs() {
                self.body(id).hold(self.class.slots_of(pages));
            }
            let (parts, class) = (self.parts, self.class);
            parts.releases.fetch_add(1, Relaxed);
            drop(self);
            let released = parts.memory.release(id, &going);
            self = Locked::new(parts, class);
            parts.releases.fetch_sub(1, Relaxed);
            self.settle(id, &going, &released);
            total += released.len();
            if released.is_empty() || !parts.ready_excess(class) {
                break;
            }
        }
        zspage.set_releasing(false);
        self.destroy_if_unused(id);
        total
    }

    /// Takes note of a release: slots on `going` are free again, pages that went are neither committed nor
    /// ready.
    fn settle(&mut self, id: ExtentId, going: &PageSet, released: &PageSet) {
        for pages in going.runs() {
            self.body(id).unhold(self.class.slots_of(pages));
        }
        for pages in released.runs() {
            self.zspage(id).committed.remove(pages.clone());
            self.zspage(id).ready.remove(pages);
        }
        self.parts.ready.fetch_sub(released.len() as usize, Relaxed);
        self.state.ready -= released.len() as u64;
        self.state.committed -= released.len() as u64;
    }

    /// Destroys a zspage without objects and without committed pages.
    fn destroy_if_unused(mut self, id: ExtentId) {
        let zspage = self.zspage(id);
        if zspage.inuse() > 0 || zspage.releasing() || !zspage.committed.is_empty() {
            return;
        }
        self.unlink(id, 0);
        let (parts, class) = (self.parts, self.class);
        drop(self);
        parts.memory.destroy(class, id);
    }

    /// Puts a new zspage into the list of empty ones.
    pub(crate) fn insert(&mut self, id: ExtentId) {
        self.link(id, 0);
    }

    fn set_inuse(&mut self, id: ExtentId, inuse: u32) {
        let from = self.class.group(self.zspage(id).inuse());
        let to = self.class.group(inuse);
        self.zspage(id).set_inuse(inuse);
        if from != to {
            self.unlink(id, from);
            self.link(id, to);
        }
    }

    pub(crate) fn link(&mut self, id: ExtentId, group: usize) {
        let head = self.state.heads[group];
        let zspage = self.zspage(id);
        zspage.previous.store(0, Relaxed);
        zspage.next.store(head, Relaxed);
        if let Some(head) = ExtentId::from_raw(head) {
            self.zspage(head).previous.store(id.to_raw(), Relaxed);
        }
        self.state.heads[group] = id.to_raw();
        self.state.counts[group] += 1;
    }

    fn unlink(&mut self, id: ExtentId, group: usize) {
        let next = self.zspage(id).next.load(Relaxed);
        let previous = self.zspage(id).previous.load(Relaxed);
        match ExtentId::from_raw(previous) {
            Some(previous) => self.zspage(previous).next.store(next, Relaxed),
            None => self.state.heads[group] = next,
        }
        if let Some(next) = ExtentId::from_raw(next) {
            self.zspage(next).previous.store(previous, Relaxed);
        }
        self.state.counts[group] -= 1;
    }

    /// Asserts the class's whole state. `visit` gets each live object's offset and owner's number.
    pub(crate) fn check(&self, mut visit: impl FnMut(u64, u32)) {
        let (mut inuse, mut committed, mut ready) = (0, 0, 0);
        for group in 0..=FULL {
            let mut previous = 0;
            for (nth, id) in self.group(group).enumerate() {
                assert!((nth as u32) < self.state.counts[group], "group {group} has a cycle");
                assert_eq!(self.zspage(id).previous.load(Relaxed), previous);
                previous = id.to_raw();
                self.check_zspage(id, group, &mut visit);
                inuse += self.zspage(id).inuse() as u64;
                ready += self.zspage(id).ready.len() as u64;
                committed += self.zspage(id).committed.len() as u64;
            }
            assert_eq!(self.group(group).count() as u32, self.state.counts[group]);
        }
        let state = &self.state;
        assert_eq!((inuse, committed, ready), (state.inuse, state.committed, state.ready));
    }

    fn check_zspage(&self, id: ExtentId, group: usize, visit: &mut impl FnMut(u64, u32)) {
        let extent = self.parts.memory.space.extent(id);
        let body = self.body(id);
        assert_eq!(extent.tag(), self.class.position);
        assert_eq!(extent.pages() as usize, self.class.shape.pages);
        assert_eq!(body.check(), extent.data.inuse(), "live slots of {id:?}");
        assert_eq!(self.class.group(extent.data.inuse()), group, "group of {id:?}");
        for page in 0..extent.pages() {
            // I5: committed for a live object, or ready; never neither.
            let live = self.is_live(id, page, extent.data.inuse());
            let ready = extent.data.ready.contains(page);
            assert!(!(live && ready), "page {page} of {id:?} is ready under a live object");
            let committed = extent.data.committed.contains(page);
            assert_eq!(committed, live || ready, "page {page} of {id:?}");
        }
        for slot in 0..self.class.shape.objects as u32 {
            if let Some(owner) = body.owner(slot) {
                visit(extent.start() + self.class.offset(slot), owner);
            }
        }
    }
}
