//! Lists of slabs, which are linked in their descriptors: a thread's, and those of the slabs that
//! are no thread's, by how many of their objects are in use.
//!
//! ```text
//!   partial | full | free: head --> slab <--> slab <--> ... <-- tail
//! ```
use crate::slab::Slab;
use crate::sync::Relaxed;
use page::{ExtentId, Space};
use std::cell::Cell;

/// A list of slabs. A slab is in one at most.
#[derive(Debug, Default)]
pub(crate) struct SlabList {
    head: Cell<Option<ExtentId>>,
    tail: Cell<Option<ExtentId>>,
}

impl SlabList {
    pub(crate) fn first(&self) -> Option<ExtentId> {
        self.head.get()
    }

    pub(crate) fn last(&self) -> Option<ExtentId> {
        self.tail.get()
    }

    /// Puts a slab at the head.
    pub(crate) fn push_front(&self, space: &Space<Slab>, id: ExtentId) {
        let (slab, head) = (&space.extent(id).data, self.head.get());
        slab.set_prev(None);
        slab.set_next(head);
        match head {
            Some(head) => space.extent(head).data.set_prev(Some(id)),
            None => self.tail.set(Some(id)),
        }
        self.head.set(Some(id));
    }

    /// Takes a slab out, wherever it is.
    pub(crate) fn remove(&self, space: &Space<Slab>, id: ExtentId) {
        let slab = &space.extent(id).data;
        let (prev, next) = (slab.prev(), slab.next());
        match prev {
            Some(prev) => space.extent(prev).data.set_next(next),
            None => self.head.set(next),
        }
        match next {
            Some(next) => space.extent(next).data.set_prev(prev),
            None => self.tail.set(prev),
        }
    }

    /// Returns the slabs, from the head on.
    pub(crate) fn iter(&self, space: &Space<Slab>) -> impl Iterator<Item = ExtentId> {
        std::iter::successors(self.first(), |&id| space.extent(id).data.next())
    }

    /// Asserts that the links agree.
    pub(crate) fn check(&self, space: &Space<Slab>) {
        let mut last = None;
        for id in self.iter(space) {
            assert_eq!(space.extent(id).data.prev(), last, "the slab before {id:?}");
            last = Some(id);
        }
        assert_eq!(self.last(), last, "the last slab");
    }
}

/// The list a slab is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Partial,
    Full,
    Free,
    /// None of them: it is a thread's, the reserve's, new, or on its way out.
    Unlisted,
}

impl List {
    /// Returns the list of slabs of which so many of `objects` are in use.
    pub(crate) fn of(active: usize, objects: usize) -> Self {
        match active {
            0 => List::Free,
            active if active == objects => List::Full,
            _ => List::Partial,
        }
    }

    /// Returns the list that a slab is in.
    pub(crate) fn of_slab(slab: &Slab) -> Self {
        let all = [List::Partial, List::Full, List::Free, List::Unlisted];
        all[slab.list.load(Relaxed) as usize]
    }
}

/// The slabs that are no one's.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    lists: [SlabList; 3],
    lens: [usize; 3],
    /// Objects in use in their slabs.
    pub(crate) active: usize,
}

impl Lists {
    pub(crate) fn first(&self, list: List) -> Option<ExtentId> {
        self.lists[list as usize].first()
    }

    pub(crate) fn len(&self, list: List) -> usize {
        self.lens[list as usize]
    }

    /// Returns the number of slabs in all lists.
    pub(crate) fn slabs(&self) -> usize {
        self.lens.iter().sum()
    }

    /// Takes a slab with `active` objects in use out of its list.
    pub(crate) fn unlink(&mut self, space: &Space<Slab>, id: ExtentId, active: usize) {
        let slab = &space.extent(id).data;
        let list = List::of_slab(slab) as usize;
        self.lists[list].remove(space, id);
        slab.list.store(List::Unlisted as u8, Relaxed);
        self.lens[list] -= 1;
        self.active -= active;
    }

    /// Puts a slab with `active` objects in use at the head of a list.
    pub(crate) fn link(&mut self, space: &Space<Slab>, id: ExtentId, list: List, active: usize) {
        self.lists[list as usize].push_front(space, id);
        space.extent(id).data.list.store(list as u8, Relaxed);
        self.lens[list as usize] += 1;
        self.active += active;
    }

    /// Asserts that links and lengths agree.
    pub(crate) fn check(&self, space: &Space<Slab>) {
        self.lists.iter().for_each(|list| list.check(space));
        let lens = self.lists.each_ref().map(|list| list.iter(space).count());
        assert_eq!(lens, self.lens, "slabs by list");
    }
}
