//! The slabs that no thread owns, in one list for each of the states partial, full and free.
//!
//! ```text
//!   partial | full | free: head --> slab <--> slab <--> ...     linked in the descriptors
//! ```

use crate::slab::Slab;
use crate::sync::Relaxed;
use page::{ExtentId, Links, ListHead, Space};

/// Returns a closure that returns the links of a slab.
pub(crate) fn links<'s>(space: &'s Space<Slab>) -> impl Fn(ExtentId) -> &'s Links {
    move |id| &space.extent(id).data.links
}

/// The list that contains a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Partial,
    Full,
    Free,
    /// No list: the slab belongs to a thread or to the reserve, is new, or is being reclaimed.
    Unlisted,
}

impl List {
    /// Returns the list for a slab of `objects` objects of which `active` are in use.
    pub(crate) fn of(active: usize, objects: usize) -> Self {
        match active {
            0 => List::Free,
            active if active == objects => List::Full,
            _ => List::Partial,
        }
    }

    /// Returns the list that contains a slab.
    pub(crate) fn of_slab(slab: &Slab) -> Self {
        let all = [List::Partial, List::Full, List::Free, List::Unlisted];
        all[slab.list.load(Relaxed) as usize]
    }
}

/// The slabs that no thread owns.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    heads: [ListHead; 3],
    lens: [usize; 3],
    /// The number of objects in use in the listed slabs.
    pub(crate) active: usize,
}

impl Lists {
    pub(crate) fn first(&self, list: List) -> Option<ExtentId> {
        self.heads[list as usize].first()
    }

    pub(crate) fn len(&self, list: List) -> usize {
        self.lens[list as usize]
    }

    /// Returns the number of slabs in all lists.
    pub(crate) fn slabs(&self) -> usize {
        self.lens.iter().sum()
    }

    /// Removes a slab with `active` objects in use from its list.
    pub(crate) fn unlink(&mut self, space: &Space<Slab>, id: ExtentId, active: usize) {
        let slab = &space.extent(id).data;
        let list = List::of_slab(slab) as usize;
        self.heads[list].remove(id, links(space));
        slab.list.store(List::Unlisted as u8, Relaxed);
        self.lens[list] -= 1;
        self.active -= active;
    }

    /// Inserts a slab with `active` objects in use at the head of a list.
    pub(crate) fn link(&mut self, space: &Space<Slab>, id: ExtentId, list: List, active: usize) {
        self.heads[list as usize].push_front(id, links(space));
        space.extent(id).data.list.store(list as u8, Relaxed);
        self.lens[list as usize] += 1;
        self.active += active;
    }

    /// Asserts that the links and lengths agree.
    pub(crate) fn check(&self, space: &Space<Slab>) {
        let lens = self.heads.each_ref().map(|head| head.check(links(space)));
        assert_eq!(lens, self.lens, "slabs by list");
    }
}
