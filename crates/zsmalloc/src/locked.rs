//! What is done to the zspages of one class while its lock is held: slots are taken and given back.
//!
//! Lock order: owner's word, class, then slab caches and the space (each the last one taken). Pages are
//! given back outside the lock (`ready`). Only a mover holds two classes, and it only tries for the second.

use crate::Error;
use crate::background::is_worth_asking;
use crate::class::{Class, ClassState, FULL};
use crate::memory::Loose;
use crate::parts::Parts;
use crate::sync::{MutexGuard, Ordering::Relaxed, Ordering::SeqCst};
use crate::zspage::{Body, Head, Links};
use page::{ExtentId, page_size};

/// Zspages looked at for a slot on committed pages, at the limit: before pages are given back for it, and where that helps
/// no more.
pub(crate) const SCAN_FEW: usize = 32;
pub(crate) const SCAN_MAX: usize = 256;

/// Objects of a class after which it is asked whether it is worth compacting.
const ASK_EVERY: u32 = 8;

/// A class with its lock held.
#[derive(Debug)]
pub(crate) struct Locked<'p> {
    parts: &'p Parts,
    class: &'p Class,
    pub(crate) state: MutexGuard<'p, ClassState>,
}

/// Which free slots will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The lowest of the fullest zspage with room.
    Lowest,
    /// Only one whose pages are all committed, in so many of the fullest zspages: for a pool at its limit.
    Committed(usize),
}

/// What taking a slot changed.
#[derive(Clone, Copy)]
struct Filled {
    /// Where the zspage begins.
    start: u64,
    committed: u32,
    /// Pages that are no longer ready.
    unready: u32,
    /// Objects of the zspage.
    inuse: u32,
}

impl Filled {
    fn entered(self) -> u32 {
        self.committed + self.unready
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
    /// Pages on which nothing lived before: committed for it, or ready.
    pub(crate) entered: u32,
    /// Whether the next slot lies on a page that is not committed.
    pub(crate) wants_page: bool,
}

impl<'p> Locked<'p> {
    pub(crate) fn new(parts: &'p Parts, class: &'p Class) -> Self {
        Locked { parts, class, state: class.state.lock() }
    }

    /// The class, if no one has it.
    pub(crate) fn try_new(parts: &'p Parts, class: &'p Class) -> Option<Self> {
        class.state.try_lock().map(|state| Locked { parts, class, state })
    }

    pub(crate) fn class(&self) -> &'p Class {
        self.class
    }

    pub(crate) fn parts(&self) -> &'p Parts {
        self.parts
    }

    pub(crate) fn head(&self, id: ExtentId) -> &Head {
        self.parts.memory.head(self, id)
    }

    pub(crate) fn body(&self, id: ExtentId) -> Body<'_> {
        self.parts.memory.body(self, id)
    }

    /// The zspages of a fullness group; full ones are in no list.
    pub(crate) fn group(&self, group: usize) -> impl Iterator<Item = ExtentId> {
        self.list(self.state.heads[group], |head| &head.group)
    }

    /// The zspages that offer ready pages.
    pub(crate) fn offering(&self) -> impl Iterator<Item = ExtentId> {
        self.list(self.state.offers, |head| &head.offers)
    }

    fn list(&self, first: u32, links: fn(&Head) -> &Links) -> impl Iterator<Item = ExtentId> {
        let mut last: Option<ExtentId> = None;
        // The next is looked up when it is asked for: mostly the first will do.
        std::iter::from_fn(move || {
            let next = last.map_or(first, |id| links(self.head(id)).next.load(Relaxed));
            let next = ExtentId::from_raw(next)?;
            last = Some(next);
            Some(next)
        })
    }

    /// Takes a slot for an object. `None` when none will do.
    pub(crate) fn take(&mut self, owner: u32, search: Search) -> Result<Option<Taken>, Error> {
        let Some((id, slot, body)) = self.find(search) else { return Ok(None) };
        let filled = self.fill(body, slot, owner)?;
        let wants_page =
            self.class.next_page(slot).is_some_and(|page| !body.head.committed.contains(page));
        self.count(id, filled);
        self.state.inuse += 1;
        let offset = filled.start + self.class.offset(slot);
        let (spent, entered) = (filled.committed, filled.entered());
        Ok(Some(Taken { id, slot, offset, spent, entered, wants_page }))
    }

    /// Gives a live slot back; pages on which nothing lives then.
    pub(crate) fn leave(&mut self, id: ExtentId, slot: u32) -> u32 {
        let emptied = self.vacate(id, slot);
        self.state.inuse -= 1;
        emptied
    }

    /// As [`leave`](Self::leave), for the object `at` bytes into a zspage, and gives pages back, if there are more on
    /// which nothing lives than the pool keeps ready. Whether the pool is worth compacting.
    pub(crate) fn give(mut self, id: ExtentId, at: u64) -> bool {
        let emptied = self.leave(id, self.class.slot_at(at));
        // Now and then: a page's worth of objects makes little difference.
        let ask = self.state.inuse.is_multiple_of(ASK_EVERY)
            && (is_worth_asking(self.class, &self.state) || self.parts.is_plan_too_large());
        if emptied > 0 {
            self.leave_ready(id);
        }
        ask
    }

    /// Has the pages of a zspage on which nothing lives any more given back, soon and with others, if there are more of
    /// them than the pool keeps ready.
    pub(crate) fn leave_ready(self, id: ExtentId) {
        // The kernel gives an empty zspage back at once.
        if self.class.whole {
            self.release(id);
        } else {
            let parts = self.parts;
            drop(self);
            parts.ease_soon();
        }
    }

    /// Offset of a slot in the pool's space.
    pub(crate) fn offset(&self, id: ExtentId, slot: u32) -> u64 {
        self.parts.memory.space.extent(id).start() + self.class.offset(slot)
    }

    /// Takes a free slot of a zspage; pages on which nothing lived before.
    pub(crate) fn occupy(&mut self, id: ExtentId, slot: u32, owner: u32) -> Result<u32, Error> {
        let filled = self.fill(self.body(id), slot, owner)?;
        self.count(id, filled);
        Ok(filled.entered())
    }

    /// Commits what a free slot needs, and takes it. To be counted afterwards.
    fn fill(&self, body: Body<'_>, slot: u32, owner: u32) -> Result<Filled, Error> {
        let (head, pages) = (body.head, self.class.pages_for(slot));
        // Mostly all of them are committed and none is ready, which is quicker to see than to count.
        let (mut committed, mut unready) = (0, 0);
        if !head.committed.contains_all(pages.clone()) {
            committed = pages.len() as u32 - head.committed.count(pages.clone());
            self.parts.memory.space.charge(committed)?;
            head.committed.insert(pages.clone());
        }
        if head.ready.contains_any(pages.clone()) {
            unready = head.ready.remove(pages);
        }
        body.take(slot, owner);
        let inuse = head.inuse() + 1;
        head.set_inuse(inuse);
        Ok(Filled { start: body.start, committed, unready, inuse })
    }

    /// Counts what `fill` did.
    fn count(&mut self, id: ExtentId, filled: Filled) {
        self.state.committed += filled.committed;
        if filled.unready > 0 {
            self.state.ready -= filled.unready;
            self.parts.took_ready(filled.unready as usize);
            let had_offer = !self.head(id).is_busy();
            self.offer(id, had_offer);
        }
        self.regroup(id, filled.inuse - 1, filled.inuse);
    }

    /// Makes a live slot free; pages on which nothing lives then.
    pub(crate) fn vacate(&mut self, id: ExtentId, slot: u32) -> u32 {
        let body = self.body(id);
        body.give(slot);
        let inuse = body.head.inuse();
        body.head.set_inuse(inuse - 1);
        let mut emptied = 0;
        for page in self.class.pages_for(slot) {
            // Mostly a neighbour lives.
            if !self.has_neighbour(body, slot, page) && !self.is_live(body, page, inuse - 1) {
                emptied += body.head.ready.insert(page..page + 1);
            }
        }
        self.regroup(id, inuse, inuse - 1);
        if emptied > 0 {
            let head = self.head(id);
            let had_offer = !head.is_busy() && head.ready.len() > emptied;
            self.offer(id, had_offer);
            self.state.ready += emptied;
            // In one order with `tending`: see `ease`.
            self.parts.ready.fetch_add(emptied as usize, SeqCst);
        }
        emptied
    }

    /// Whether a slot beside `slot` lies on `page` too, and is live for sure.
    fn has_neighbour(&self, body: Body<'_>, slot: u32, page: u32) -> bool {
        let (before, after) = self.class.beside(slot, page);
        let is_taken = |beside: Option<u32>| beside.is_some_and(|slot| body.is_taken(slot));
        !body.head.is_busy() && (is_taken(before) || is_taken(after))
    }

    /// Whether a page is needed by a zspage with `inuse` objects.
    pub(crate) fn is_live(&self, body: Body<'_>, page: u32, inuse: u32) -> bool {
        inuse > 0 && (self.class.whole || body.any_live(self.class.slots_of(page..page + 1)))
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
    fn find(&self, search: Search) -> Option<(ExtentId, u32, Body<'_>)> {
        let mut partial = self.fullest_first().flat_map(|group| self.group(group));
        match search {
            Search::Lowest => self.at_hand().or_else(|| partial.find_map(|id| self.lowest(id))),
            Search::Committed(_) if !self.has_committed_room() => None,
            Search::Committed(most) => partial
                .take(most)
                .find_map(|id| self.lowest_committed(id).map(|slot| (id, slot, self.body(id)))),
        }
    }

    /// The same, if the first zspage that should have room does: it may be that its free slots are held.
    pub(crate) fn at_hand(&self) -> Option<(ExtentId, u32, Body<'_>)> {
        let fullest = self.state.groups.checked_ilog2()?;
        self.lowest(ExtentId::from_raw(self.state.heads[fullest as usize])?)
    }

    fn lowest(&self, id: ExtentId) -> Option<(ExtentId, u32, Body<'_>)> {
        let body = self.body(id);
        body.lowest_free().map(|slot| (id, slot, body))
    }

    /// Whether the committed pages could hold another object, were the objects packed.
    fn has_committed_room(&self) -> bool {
        let bytes = self.state.committed as u64 * page_size() as u64;
        bytes >= (self.state.inuse as u64 + 1) * self.class.size() as u64
    }

    /// The lowest free slot of a zspage whose pages are all committed. Free slots without pages, and committed pages without
    /// free slots, are passed over many at a time: at the limit hundreds of zspages are looked at.
    pub(crate) fn lowest_committed(&self, id: ExtentId) -> Option<u32> {
        let (class, body) = (self.class, self.body(id));
        let committed = &body.head.committed;
        let room = committed.len() as usize * page_size();
        if room < (body.head.inuse() as usize + 1) * class.size() {
            return None;
        }
        let mut slot = body.lowest_free()?;
        while let Some(missing) = committed.first_missing(class.pages_for(slot)) {
            let next = committed.first_from(missing)?;
            slot = body.free_from(class.first_slot_from(next).max(slot + 1))?;
        }
        Some(slot)
    }

    /// Puts a new zspage into the list of empty ones.
    pub(crate) fn insert(&mut self, zspage: Loose) {
        let parts = self.parts;
        let id = parts.memory.attach(self, zspage);
        self.link(id, 0);
        self.state.zspages += 1;
    }

    /// Takes a zspage without objects out of the lists.
    pub(crate) fn remove(&mut self, id: ExtentId) -> Loose {
        self.unlink(id, 0);
        self.state.zspages -= 1;
        let parts = self.parts;
        parts.memory.detach(self, id)
    }

    /// Puts a zspage into the list for `to` objects, which had `from`.
    fn regroup(&mut self, id: ExtentId, from: u32, to: u32) {
        let (from, to) = (self.class.group(from), self.class.group(to));
        if from != to {
            self.unlink(id, from);
            self.link(id, to);
        }
    }

    /// A full zspage is not put into a list: nothing is looked for there, and the neighbours' bodies are spared.
    pub(crate) fn link(&mut self, id: ExtentId, group: usize) {
        if group == FULL {
            return;
        }
        self.state.heads[group] = self.push(self.state.heads[group], id, |head| &head.group);
        self.state.groups |= 1 << group;
    }

    fn unlink(&mut self, id: ExtentId, group: usize) {
        if group == FULL {
            return;
        }
        self.state.heads[group] = self.pull(self.state.heads[group], id, |head| &head.group);
        if self.state.heads[group] == 0 {
            self.state.groups &= !(1 << group);
        }
    }

    /// Has a zspage in the list of those that offer ready pages if it does, and not if it does not; whether it did before.
    pub(crate) fn offer(&mut self, id: ExtentId, before: bool) {
        let first = self.state.offers;
        self.state.offers = match (before, self.head(id).has_offer()) {
            (false, true) => self.push(first, id, |head| &head.offers),
            (true, false) => self.pull(first, id, |head| &head.offers),
            _ => return,
        };
        if (first == 0) != (self.state.offers == 0) {
            self.parts.offers.set(self.class, self.state.offers != 0);
        }
    }

    /// Puts a zspage before the first of a list, which it is then.
    fn push(&self, first: u32, id: ExtentId, links: fn(&Head) -> &Links) -> u32 {
        let own = links(self.head(id));
        own.previous.store(0, Relaxed);
        own.next.store(first, Relaxed);
        if let Some(first) = ExtentId::from_raw(first) {
            links(self.head(first)).previous.store(id.to_raw(), Relaxed);
        }
        id.to_raw()
    }

    /// Takes a zspage out of a list; the first of those that stay.
    fn pull(&self, first: u32, id: ExtentId, links: fn(&Head) -> &Links) -> u32 {
        let own = links(self.head(id));
        let (next, previous) = (own.next.load(Relaxed), own.previous.load(Relaxed));
        if let Some(next) = ExtentId::from_raw(next) {
            links(self.head(next)).previous.store(previous, Relaxed);
        }
        match ExtentId::from_raw(previous) {
            Some(previous) => {
                links(self.head(previous)).next.store(next, Relaxed);
                first
            }
            None => next,
        }
    }

    /// All zspages of the class, full ones too. It looks at all there are, of whichever class.
    pub(crate) fn all(&self) -> impl Iterator<Item = ExtentId> {
        self.parts.memory.space.live().filter(|&id| self.has(id))
    }

    /// Whether `id` is a zspage of the class: where it was noted before the lock was taken, it may be gone, and
    /// another's by now. One without a body is being made or destroyed.
    pub(crate) fn has(&self, id: ExtentId) -> bool {
        self.parts.memory.space.extent(id).data.body(self.class.position).is_some()
    }

    /// Moves the body of a zspage, if it still is one, to where bodies lie together.
    pub(crate) fn rehouse(mut self, id: ExtentId) {
        if self.has(id) {
            self.parts.memory.rehouse(&mut self, id);
        }
    }
}
