//! The slabs of a cache in the order of their offsets, so that the lowest slab with a free object
//! is found quickly.
//!
//! ```text
//!            [ slab at 5 | summary, below ]     a treap: by offset from left to right,
//!               /                       \       by a hash of the number from top to bottom;
//!    [ slab at 2 ]                [ slab at 9 ] so it is shallow, and its links lie in
//!                \                              the descriptors
//!           [ slab at 3 ]
//! ```
//! Each slab has a summary of its own contents. Each slab also has the union of its own summary and
//! the summaries of all slabs below it in the tree. All summaries change under the cache's lock.
//!
//! # Safety
//! Objects are allocated from the slabs in the tree. So each slab in a tree must belong to the
//! cache of that tree. The cache's lock guards the tree.
#![allow(unsafe_code)]

use super::slab::Slab;
use super::sync::Relaxed;
use page::{ExtentId, Space};
use std::iter::successors;

type Link = Option<ExtentId>;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlabTree {
    root: Link,
}

impl SlabTree {
    /// Returns the slab at the lowest offset among those whose summary has a flag of `wanted`.
    pub(crate) fn first(&self, space: &Space<Slab>, wanted: u8) -> Option<ExtentId> {
        self.outermost(space, wanted, Slab::left, Slab::right)
    }

    /// Returns the slab at the highest offset among those whose summary has a flag of `wanted`.
    pub(crate) fn last(&self, space: &Space<Slab>, wanted: u8) -> Option<ExtentId> {
        self.outermost(space, wanted, Slab::right, Slab::left)
    }

    fn outermost(
        &self,
        space: &Space<Slab>,
        wanted: u8,
        outer: fn(&Slab) -> Link,
        inner: fn(&Slab) -> Link,
    ) -> Option<ExtentId> {
        let below =
            |link: Link| link.filter(|&id| Tree(space).summary_below(Some(id)) & wanted != 0);
        let mut at = below(self.root)?;
        loop {
            let slab = Tree(space).slab(at);
            match below(outer(slab)) {
                Some(further) => at = further,
                None if slab.summary.load(Relaxed) & wanted != 0 => return Some(at),
                None => at = below(inner(slab))?,
            }
        }
    }

    /// Inserts a slab whose descriptor was reset.
    ///
    /// # Safety
    /// The slab belongs to the cache of this tree, and is in no tree yet.
    pub(crate) unsafe fn insert(&mut self, space: &Space<Slab>, id: ExtentId) {
        self.root = Some(Tree(space).insert(self.root, id));
    }

    pub(crate) fn remove(&mut self, space: &Space<Slab>, id: ExtentId) {
        self.root = Tree(space).remove(self.root, id);
    }

    pub(crate) fn set_summary(&mut self, space: &Space<Slab>, id: ExtentId, summary: u8) {
        Tree(space).slab(id).summary.store(summary, Relaxed);
        Tree(space).refresh_down_to(self.root, id);
    }

    /// Returns the slabs currently in the tree, lowest offset first. Does not allocate.
    pub(crate) fn slabs(self, space: &Space<Slab>) -> impl Iterator<Item = ExtentId> {
        let above = move |after: Option<u64>| {
            let (mut at, mut found) = (self.root, None);
            while let Some(id) = at {
                let is_above = after.is_none_or(|after| Tree(space).offset(id) > after);
                found = if is_above { at } else { found };
                let slab = Tree(space).slab(id);
                at = if is_above { slab.left() } else { slab.right() };
            }
            found
        };
        successors(above(None), move |&id| above(Some(Tree(space).offset(id))))
    }

    /// Asserts that the order of priorities and the summaries below each slab are correct. Slabs
    /// whose offsets are out of order are not found by `slabs`.
    pub(crate) fn check(&self, space: &Space<Slab>) {
        let tree = Tree(space);
        for id in self.slabs(space) {
            let slab = tree.slab(id);
            for child in [slab.left(), slab.right()].into_iter().flatten() {
                assert!(priority(child) < priority(id), "{child:?} below {id:?}");
            }
            assert_eq!(tree.summary_below(Some(id)), tree.sum(id), "summary below {id:?}");
        }
    }
}

/// Returns a hash of the slab's ID that differs for different slabs.
fn priority(id: ExtentId) -> u32 {
    let mixed = (id.to_raw() ^ id.to_raw() >> 16).wrapping_mul(0x9E37_79B1);
    (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA6B)
}

/// The nodes of a tree. A function that changes a tree takes the old root, and returns the new
/// root.
#[derive(Clone, Copy)]
struct Tree<'a>(&'a Space<Slab>);

impl<'a> Tree<'a> {
    fn slab(self, id: ExtentId) -> &'a Slab {
        &self.0.extent(id).data
    }

    fn offset(self, id: ExtentId) -> u64 {
        self.0.extent(id).start()
    }

    fn summary_below(self, link: Link) -> u8 {
        link.map_or(0, |id| self.slab(id).summary_below.load(Relaxed))
    }

    fn sum(self, id: ExtentId) -> u8 {
        let slab = self.slab(id);
        let below = self.summary_below(slab.left()) | self.summary_below(slab.right());
        slab.summary.load(Relaxed) | below
    }

    /// Makes `left` and `right` the children of `top`. Returns `top`.
    fn join(self, left: Link, top: ExtentId, right: Link) -> ExtentId {
        // SAFETY: `left`, `top` and `right` are slabs of one cache. The slabs are in the cache's
        // tree, or `SlabTree::insert` is inserting them. The tree is borrowed mutably, and the
        // cache's lock guards the tree.
        unsafe { self.slab(top).set_children(left, right) };
        self.refresh(top)
    }

    fn refresh(self, top: ExtentId) -> ExtentId {
        self.slab(top).summary_below.store(self.sum(top), Relaxed);
        top
    }

    fn refresh_down_to(self, top: Link, id: ExtentId) {
        let Some(top) = top else { return };
        if top != id {
            let slab = self.slab(top);
            let is_left = self.offset(id) < self.offset(top);
            self.refresh_down_to(if is_left { slab.left() } else { slab.right() }, id);
        }
        self.refresh(top);
    }

    fn insert(self, top: Link, id: ExtentId) -> ExtentId {
        let Some(top) = top.filter(|&top| priority(top) > priority(id)) else {
            let (left, right) = self.split(top, self.offset(id));
            return self.join(left, id, right);
        };
        let (left, right) = (self.slab(top).left(), self.slab(top).right());
        if self.offset(id) < self.offset(top) {
            self.join(Some(self.insert(left, id)), top, right)
        } else {
            self.join(left, top, Some(self.insert(right, id)))
        }
    }

    fn remove(self, top: Link, id: ExtentId) -> Link {
        let top = top?;
        let (left, right) = (self.slab(top).left(), self.slab(top).right());
        if top == id {
            return self.merge(left, right);
        }
        Some(if self.offset(id) < self.offset(top) {
            self.join(self.remove(left, id), top, right)
        } else {
            self.join(left, top, self.remove(right, id))
        })
    }

    /// Splits a tree into the slabs at offsets below `offset` and the other slabs.
    fn split(self, top: Link, offset: u64) -> (Link, Link) {
        let Some(top) = top else { return (None, None) };
        let (left, right) = (self.slab(top).left(), self.slab(top).right());
        if self.offset(top) < offset {
            let (below, above) = self.split(right, offset);
            (Some(self.join(left, top, below)), above)
        } else {
            let (below, above) = self.split(left, offset);
            (below, Some(self.join(above, top, right)))
        }
    }

    /// Merges two trees. All offsets in the left tree are below all offsets in the right tree.
    fn merge(self, left: Link, right: Link) -> Link {
        let (Some(low), Some(high)) = (left, right) else { return left.or(right) };
        Some(if priority(low) > priority(high) {
            let slab = self.slab(low);
            self.join(slab.left(), low, self.merge(slab.right(), right))
        } else {
            let slab = self.slab(high);
            self.join(self.merge(left, slab.left()), high, slab.right())
        })
    }
}
