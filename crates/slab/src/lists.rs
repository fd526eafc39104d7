//! The slabs that are no thread's, by how many of their objects are in use.
//!
//! ```text
//!   partial | full | free: heads of lists that are linked in the descriptors
//! ```
use crate::shape::Shape;
use crate::slab::Slab;
use crate::slab_ref::SlabRef;
use crate::sync::Relaxed;
use page::ExtentId;

/// The list a slab is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Partial,
    Full,
    Free,
    /// None of them: it is a thread's, the reserve's, new, or on its way out.
    Unlisted,
}

impl List {
    pub(crate) fn of(slab_ref: SlabRef<'_>, shape: &Shape) -> Self {
        match slab_ref.active() {
            0 => List::Free,
            active if active == shape.objects => List::Full,
            _ => List::Partial,
        }
    }

    pub(crate) fn of_slab(slab: &Slab) -> Self {
        let all = [List::Partial, List::Full, List::Free, List::Unlisted];
        all[slab.list.load(Relaxed) as usize]
    }
}

/// Finds a slab that the caller may work in.
pub(crate) trait Find<'s>: Fn(ExtentId) -> SlabRef<'s> {}

impl<'s, F: Fn(ExtentId) -> SlabRef<'s>> Find<'s> for F {}

/// The lists.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    heads: [Option<ExtentId>; 3],
    lens: [usize; 3],
    /// Objects in use in their slabs.
    pub(crate) active: usize,
}

impl Lists {
    pub(crate) fn first(&self, list: List) -> Option<ExtentId> {
        self.heads[list as usize]
    }

    pub(crate) fn len(&self, list: List) -> usize {
        self.lens[list as usize]
    }

    /// Slabs in all lists.
    pub(crate) fn slabs(&self) -> usize {
        self.lens.iter().sum()
    }

    /// Takes a slab out of its list.
    pub(crate) fn unlink<'s>(&mut self, id: ExtentId, find: impl Find<'s>) {
        let slab_ref = find(id);
        let (list, prev, next) = (List::of_slab(slab_ref.slab), slab_ref.prev(), slab_ref.next());
        match prev {
            Some(prev) => find(prev).set_next(next),
            None => self.heads[list as usize] = next,
        }
        if let Some(next) = next {
            find(next).set_prev(prev);
        }
        slab_ref.slab.list.store(List::Unlisted as u8, Relaxed);
        self.lens[list as usize] -= 1;
        self.active -= slab_ref.active();
    }

    /// Puts a slab at the head of a list.
    pub(crate) fn link<'s>(&mut self, id: ExtentId, list: List, find: impl Find<'s>) {
        let slab_ref = find(id);
        let head = self.heads[list as usize];
        slab_ref.set_links(None, head);
        if let Some(head) = head {
            find(head).set_prev(Some(id));
        }
        self.heads[list as usize] = Some(id);
        slab_ref.slab.list.store(list as u8, Relaxed);
        self.lens[list as usize] += 1;
        self.active += slab_ref.active();
    }

    /// Asserts that links, lengths and the count agree, and that each slab is on the list its count
    /// says.
    pub(crate) fn check<'s>(&self, shape: &Shape, find: impl Find<'s>) {
        let (mut lens, mut active) = ([0; 3], 0);
        for list in [List::Partial, List::Full, List::Free] {
            let mut prev = None;
            for id in std::iter::successors(self.first(list), |&id| find(id).next()) {
                let slab_ref = find(id);
                assert_eq!((slab_ref.prev(), List::of(slab_ref, shape)), (prev, list), "{id:?}");
                assert_eq!(List::of_slab(slab_ref.slab), list, "{id:?}");
                active += slab_ref.active();
                lens[list as usize] += 1;
                prev = Some(id);
            }
        }
        assert_eq!((lens, active), (self.lens, self.active), "slabs by list, objects in use");
    }
}
