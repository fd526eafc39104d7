//! What is done to the zspages of one class while its lock is held: slots are taken and given back.
//!
//! Lock order: entry, class, then slab caches and the space (each the last one taken). Pages are
//! given back outside the lock (`retained`). Only a mover holds two classes, and it only tries for
//! the second.

use crate::Error;
use crate::class::{Class, ClassState, FULL};
use crate::inner::PoolInner;
use crate::memory::Loose;
use crate::policy::{self, ASK_EVERY};
use crate::sync::{MutexGuard, Ordering::Relaxed, Ordering::SeqCst};
use crate::zspage::{FixedHeader, Header, Links};
use page::{ExtentId, page_size};

/// A class with its lock held.
#[derive(Debug)]
pub(crate) struct ClassGuard<'p> {
    inner: &'p PoolInner,
    class: &'p Class,
    pub(crate) state: MutexGuard<'p, ClassState>,
}

/// Which free slots will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The lowest of the fullest zspage with room.
    Lowest,
    /// Only one whose pages are all committed, in so many of the fullest zspages: for a pool at its
    /// limit.
    Committed(usize),
}

/// What taking a slot changed.
#[derive(Clone, Copy)]
struct Filled {
    /// Where the zspage begins.
    start: u64,
    committed: u32,
    /// Pages that are no longer retained.
    reused: u32,
    /// Objects of the zspage.
    inuse: u32,
}

impl Filled {
    fn entered(self) -> u32 {
        self.committed + self.reused
    }
}

/// A slot that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) id: ExtentId,
    pub(crate) slot: u32,
    /// Where it is in the pool's space.
    pub(crate) offset: u64,
    /// Pages committed for it.
    pub(crate) spent: u32,
    /// Pages on which nothing lived before: committed for it, or retained.
    pub(crate) entered: u32,
    /// Whether the next slot lies on a page that is not committed.
    pub(crate) wants_page: bool,
}

impl<'p> ClassGuard<'p> {
    pub(crate) fn new(inner: &'p PoolInner, class: &'p Class) -> Self {
        ClassGuard { inner, class, state: class.state.lock() }
    }

    /// The class, if no one has it.
    pub(crate) fn try_new(inner: &'p PoolInner, class: &'p Class) -> Option<Self> {
        class.state.try_lock().map(|state| ClassGuard { inner, class, state })
    }

    pub(crate) fn class(&self) -> &'p Class {
        self.class
    }

    pub(crate) fn inner(&self) -> &'p PoolInner {
        self.inner
    }

    pub(crate) fn fixed_header(&self, id: ExtentId) -> &FixedHeader {
        self.inner.memory.fixed_header(self, id)
    }

    pub(crate) fn header(&self, id: ExtentId) -> Header<'_> {
        self.inner.memory.header(self, id)
    }

    /// The zspages of a fullness group; full ones are in no list.
    pub(crate) fn group(&self, group: usize) -> impl Iterator<Item = ExtentId> {
        self.list(self.state.heads[group], |head| &head.group)
    }

    /// The zspages that offer retained pages.
    pub(crate) fn offering(&self) -> impl Iterator<Item = ExtentId> {
        self.list(self.state.offers, |head| &head.offers)
    }

    fn list(
        &self,
        first: u32,
        links: fn(&FixedHeader) -> &Links,
    ) -> impl Iterator<Item = ExtentId> {
        let mut last: Option<ExtentId> = None;
        // The next is looked up when it is asked for: mostly the first will do.
        std::iter::from_fn(move || {
            let next = last.map_or(first, |id| links(self.fixed_header(id)).next.load(Relaxed));
            let next = ExtentId::from_raw(next)?;
            last = Some(next);
            Some(next)
        })
    }

    /// Takes a slot for an object. `None` when none will do.
    pub(crate) fn alloc_slot(
        &mut self,
        entry: u32,
        search: Search,
    ) -> Result<Option<Taken>, Error> {
        let Some((id, slot, header)) = self.find(search) else { return Ok(None) };
        let filled = self.fill(header, slot, entry)?;
        let wants_page =
            self.class.next_page(slot).is_some_and(|page| !header.fixed.committed.contains(page));
        self.count(id, filled);
        self.state.inuse += 1;
        let offset = filled.start + self.class.offset(slot);
        let (spent, entered) = (filled.committed, filled.entered());
        Ok(Some(Taken { id, slot, offset, spent, entered, wants_page }))
    }

    /// Gives a live slot back; pages on which nothing lives then.
    pub(crate) fn free_slot(&mut self, id: ExtentId, slot: u32) -> u32 {
        let emptied = self.clear_slot(id, slot);
        self.state.inuse -= 1;
        emptied
    }

    /// As [`free_slot`](Self::free_slot), for the object `at` bytes into a zspage, and gives pages
    /// back, if there are more on which nothing lives than the pool retains. Whether the pool is
    /// worth compacting.
    pub(crate) fn free_object(mut self, id: ExtentId, at: u64) -> bool {
        let emptied = self.free_slot(id, self.class.slot_at(at));
        let ask = self.state.inuse.is_multiple_of(ASK_EVERY)
            && (policy::should_begin(self.class.gain(&self.state), self.state.committed)
                || self.inner.is_plan_too_large());
        if emptied > 0 {
            self.retain_pages(id);
        }
        ask
    }

    /// Has the pages of a zspage on which nothing lives any more given back, soon and with others,
    /// if there are more of them than the pool retains.
    pub(crate) fn retain_pages(self, id: ExtentId) {
        // The kernel gives an empty zspage back at once.
        if self.class.commits_whole {
            self.release(id);
        } else {
            let inner = self.inner;
            drop(self);
            inner.purge_excess_soon();
        }
    }

    /// Offset of a slot in the pool's space.
    pub(crate) fn offset(&self, id: ExtentId, slot: u32) -> u64 {
        self.inner.memory.space.extent(id).start() + self.class.offset(slot)
    }

    /// Takes a free slot of a zspage; pages on which nothing lived before.
    pub(crate) fn alloc_slot_at(
        &mut self,
        id: ExtentId,
        slot: u32,
        entry: u32,
    ) -> Result<u32, Error> {
        let filled = self.fill(self.header(id), slot, entry)?;
        self.count(id, filled);
        Ok(filled.entered())
    }

    /// Commits what a free slot needs, and takes it. To be counted afterwards.
    fn fill(&self, header: Header<'_>, slot: u32, entry: u32) -> Result<Filled, Error> {
        let (head, pages) = (header.fixed, self.class.pages_for(slot));
        // Mostly all of them are committed and none is retained, which is quicker to see than to
        // count.
        let (mut committed, mut unready) = (0, 0);
        if !head.committed.contains_all(pages.clone()) {
            committed = pages.len() as u32 - head.committed.count(pages.clone());
            self.inner.memory.space.charge(committed)?;
            head.committed.insert(pages.clone());
        }
        if head.retained.contains_any(pages.clone()) {
            unready = head.retained.remove(pages);
        }
        header.set(slot, entry);
        let inuse = head.inuse() + 1;
        head.set_inuse(inuse);
        Ok(Filled { start: header.start, committed, reused: unready, inuse })
    }

    /// Counts what `fill` did.
    fn count(&mut self, id: ExtentId, filled: Filled) {
        self.state.committed += filled.committed;
        if filled.reused > 0 {
            self.state.retained -= filled.reused;
            self.inner.take_retained(filled.reused as usize);
            let had_offer = !self.fixed_header(id).is_busy();
            self.update_offer(id, had_offer);
        }
        self.update_group(id, filled.inuse - 1, filled.inuse);
    }

    /// Makes a live slot free; pages on which nothing lives then.
    pub(crate) fn clear_slot(&mut self, id: ExtentId, slot: u32) -> u32 {
        let header = self.header(id);
        header.clear(slot);
        let inuse = header.fixed.inuse();
        header.fixed.set_inuse(inuse - 1);
        let mut emptied = 0;
        for page in self.class.pages_for(slot) {
            // Mostly a neighbour lives.
            if !self.has_neighbour(header, slot, page) && !self.is_live(header, page, inuse - 1) {
                emptied += header.fixed.retained.insert(page..page + 1);
            }
        }
        self.update_group(id, inuse, inuse - 1);
        if emptied > 0 {
            let head = self.fixed_header(id);
            let had_offer = !head.is_busy() && head.retained.len() > emptied;
            self.update_offer(id, had_offer);
            self.state.retained += emptied;
            // In one order with `tending`: see `purge_excess`.
            self.inner.retained.fetch_add(emptied as usize, SeqCst);
        }
        emptied
    }

    /// Whether a slot beside `slot` lies on `page` too, and is live for sure.
    fn has_neighbour(&self, header: Header<'_>, slot: u32, page: u32) -> bool {
        let (before, after) = self.class.neighbours(slot, page);
        let is_taken = |beside: Option<u32>| beside.is_some_and(|slot| header.is_taken(slot));
        !header.fixed.is_busy() && (is_taken(before) || is_taken(after))
    }

    /// Whether a page is needed by a zspage with `inuse` objects.
    pub(crate) fn is_live(&self, header: Header<'_>, page: u32, inuse: u32) -> bool {
        inuse > 0
            && (self.class.commits_whole || header.any_live(self.class.slots_of(page..page + 1)))
    }

    /// The groups that have zspages with room, the fullest first.
    fn fullest_first(&self) -> impl Iterator<Item = usize> + use<> {
        let mut groups = self.state.groups;
        std::iter::from_fn(move || {
            let group = groups.checked_ilog2()?;
            groups &= !(1 << group);
            Some(group as usize)
        })
    }

    /// A free slot: fullest group first, head of its list first, lowest slot first.
    fn find(&self, search: Search) -> Option<(ExtentId, u32, Header<'_>)> {
        let mut partial = self.fullest_first().flat_map(|group| self.group(group));
        match search {
            Search::Lowest => {
                self.first_with_room().or_else(|| partial.find_map(|id| self.lowest(id)))
            }
            Search::Committed(_) if !self.has_committed_room() => None,
            Search::Committed(most) => partial
                .take(most)
                .find_map(|id| self.lowest_committed(id).map(|slot| (id, slot, self.header(id)))),
        }
    }

    /// The same, if the first zspage that should have room does: it may be that its free slots are
    /// held.
    pub(crate) fn first_with_room(&self) -> Option<(ExtentId, u32, Header<'_>)> {
        let fullest = self.state.groups.checked_ilog2()?;
        self.lowest(ExtentId::from_raw(self.state.heads[fullest as usize])?)
    }

    fn lowest(&self, id: ExtentId) -> Option<(ExtentId, u32, Header<'_>)> {
        let header = self.header(id);
        header.lowest_free().map(|slot| (id, slot, header))
    }

    /// Whether the committed pages could hold another object, were the objects packed.
    fn has_committed_room(&self) -> bool {
        let bytes = self.state.committed as u64 * page_size() as u64;
        bytes >= (self.state.inuse as u64 + 1) * self.class.size() as u64
    }

    /// The lowest free slot of a zspage whose pages are all committed. Free slots without pages,
    /// and committed pages without free slots, are passed over many at a time: at the limit
    /// hundreds of zspages are looked at.
    pub(crate) fn lowest_committed(&self, id: ExtentId) -> Option<u32> {
        let (class, header) = (self.class, self.header(id));
        let committed = &header.fixed.committed;
        let room = committed.len() as usize * page_size();
        if room < (header.fixed.inuse() as usize + 1) * class.size() {
            return None;
        }
        let mut slot = header.lowest_free()?;
        while let Some(missing) = committed.first_missing(class.pages_for(slot)) {
            let next = committed.first_from(missing)?;
            slot = header.free_from(class.first_slot_from(next).max(slot + 1))?;
        }
        Some(slot)
    }

    /// Puts a new zspage into the list of empty ones.
    pub(crate) fn insert(&mut self, zspage: Loose) {
        let inner = self.inner;
        let id = inner.memory.attach(self, zspage);
        self.link_group(id, 0);
        self.state.zspages += 1;
    }

    /// Takes a zspage without objects out of the lists.
    pub(crate) fn remove(&mut self, id: ExtentId) -> Loose {
        self.unlink_group(id, 0);
        self.state.zspages -= 1;
        let inner = self.inner;
        inner.memory.detach(self, id)
    }

    /// Puts a zspage into the list for `to` objects, which had `from`.
    fn update_group(&mut self, id: ExtentId, from: u32, to: u32) {
        let (from, to) = (self.class.group(from), self.class.group(to));
        if from != to {
            self.unlink_group(id, from);
            self.link_group(id, to);
        }
    }

    /// A full zspage is not put into a list: nothing is looked for there, and the neighbours'
    /// headers are spared.
    pub(crate) fn link_group(&mut self, id: ExtentId, group: usize) {
        if group == FULL {
            return;
        }
        self.state.heads[group] = self.push_front(self.state.heads[group], id, |head| &head.group);
        self.state.groups |= 1 << group;
    }

    fn unlink_group(&mut self, id: ExtentId, group: usize) {
        if group == FULL {
            return;
        }
        self.state.heads[group] = self.unlink(self.state.heads[group], id, |head| &head.group);
        if self.state.heads[group] == 0 {
            self.state.groups &= !(1 << group);
        }
    }

    /// Has a zspage in the list of those that offer retained pages if it does, and not if it does
    /// not; whether it did before.
    pub(crate) fn update_offer(&mut self, id: ExtentId, before: bool) {
        let first = self.state.offers;
        self.state.offers = match (before, self.fixed_header(id).has_offer()) {
            (false, true) => self.push_front(first, id, |head| &head.offers),
            (true, false) => self.unlink(first, id, |head| &head.offers),
            _ => return,
        };
        if (first == 0) != (self.state.offers == 0) {
            self.inner.offers.set(self.class, self.state.offers != 0);
        }
    }

    /// Puts a zspage before the first of a list, which it is then.
    fn push_front(&self, first: u32, id: ExtentId, links: fn(&FixedHeader) -> &Links) -> u32 {
        let own = links(self.fixed_header(id));
        own.previous.store(0, Relaxed);
        own.next.store(first, Relaxed);
        if let Some(first) = ExtentId::from_raw(first) {
            links(self.fixed_header(first)).previous.store(id.to_raw(), Relaxed);
        }
        id.to_raw()
    }

    /// Takes a zspage out of a list; the first of those that stay.
    fn unlink(&self, first: u32, id: ExtentId, links: fn(&FixedHeader) -> &Links) -> u32 {
        let own = links(self.fixed_header(id));
        let (next, previous) = (own.next.load(Relaxed), own.previous.load(Relaxed));
        if let Some(next) = ExtentId::from_raw(next) {
            links(self.fixed_header(next)).previous.store(previous, Relaxed);
        }
        match ExtentId::from_raw(previous) {
            Some(previous) => {
                links(self.fixed_header(previous)).next.store(next, Relaxed);
                first
            }
            None => next,
        }
    }

    /// All zspages of the class, full ones too. It looks at all there are, of whichever class.
    pub(crate) fn all(&self) -> impl Iterator<Item = ExtentId> {
        self.inner.memory.space.live().filter(|&id| self.contains(id))
    }

    /// Whether `id` is a zspage of the class: where it was noted before the lock was taken, it may
    /// be gone, and another's by now. One without a header is being made or destroyed.
    pub(crate) fn contains(&self, id: ExtentId) -> bool {
        self.inner.memory.space.extent(id).data.header(self.class.position).is_some()
    }

    /// Moves the header of a zspage, if it still is one, to where headers lie together.
    pub(crate) fn relocate_header(mut self, id: ExtentId) {
        if self.contains(id) {
            self.inner.memory.relocate_header(&mut self, id);
        }
    }
}
