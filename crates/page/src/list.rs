//! A list of extents. The owner keeps a [`Links`] for each extent, in the extent's descriptor or in
//! other memory.
//!
//! ```text
//!   ListHead --> Links of an extent <--> Links <--> Links         0 ends the list both ways
//! ```
//! The owner's lock ensures that one thread at a time uses a list. The links are atomic, so a stale
//! reader that reads an old id causes no data race.
//!
//! # Safety
//! Links are two atomic integers, for which zeros are valid. The links are zeros if the extent is
//! in no list, or is the only one in its list.
#![allow(unsafe_code)]

use crate::extent::ExtentId;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::zeroed::Zeroed;

/// An extent's neighbours in a list, as raw ids; 0 means none.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Links {
    next: AtomicU32,
    previous: AtomicU32,
}

const _: () = assert!(cfg!(all(test, loom)) || size_of::<Links>() == 8);

// SAFETY: both fields of `Links` are AtomicU32.
unsafe impl Zeroed for Links {}

impl Links {
    /// Returns the extent after this one.
    pub fn next(&self) -> Option<ExtentId> {
        ExtentId::from_raw(self.next.load(Relaxed))
    }

    /// Returns the extent before this one.
    pub fn previous(&self) -> Option<ExtentId> {
        ExtentId::from_raw(self.previous.load(Relaxed))
    }

    /// Clears both links, for an owner that rebuilds all lists.
    pub fn clear(&self) {
        self.set_next(None);
        self.set_previous(None);
    }

    fn set_next(&self, next: Option<ExtentId>) {
        self.next.store(next.map_or(0, ExtentId::to_raw), Relaxed);
    }

    fn set_previous(&self, previous: Option<ExtentId>) {
        self.previous.store(previous.map_or(0, ExtentId::to_raw), Relaxed);
    }
}

/// The head of a list. Every function takes a closure that returns an extent's links for this list.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListHead(Option<ExtentId>);

impl ListHead {
    /// Returns the first extent.
    pub fn first(&self) -> Option<ExtentId> {
        self.0
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Inserts an extent at the front. The extent is in no list that uses these links.
    pub fn push_front<'l>(&mut self, id: ExtentId, links: impl Fn(ExtentId) -> &'l Links) {
        let own = links(id);
        own.set_previous(None);
        own.set_next(self.0);
        if let Some(first) = self.0.replace(id) {
            links(first).set_previous(Some(id));
        }
    }

    /// Removes an extent from its list. The links of the removed extent do not change.
    pub fn remove<'l>(&mut self, id: ExtentId, links: impl Fn(ExtentId) -> &'l Links) {
        let own = links(id);
        let (next, previous) = (own.next(), own.previous());
        if let Some(next) = next {
            links(next).set_previous(previous);
        }
        match previous {
            Some(previous) => links(previous).set_next(next),
            None => self.0 = next,
        }
    }

    /// Returns the extents, first to last. The links of an extent are read when the next extent is
    /// requested.
    pub fn iter<'l>(
        &self,
        links: impl Fn(ExtentId) -> &'l Links,
    ) -> impl Iterator<Item = ExtentId> {
        let mut next = Err(self.0);
        std::iter::from_fn(move || {
            let id = next.map_or_else(|first| first, |last| links(last).next())?;
            next = Ok(id);
            Some(id)
        })
    }

    /// Asserts that the links agree with each other. Returns the number of extents.
    pub fn check<'l>(&self, links: impl Fn(ExtentId) -> &'l Links) -> usize {
        let mut before = None;
        let mut len = 0;
        for id in self.iter(&links) {
            assert_eq!(links(id).previous(), before, "what is before {id:?}");
            before = Some(id);
            len += 1;
        }
        len
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::collections::VecDeque;
    use testkit::seed;

    const EXTENTS: usize = 20;

    #[test]
    fn random_changes_match_two_queues() {
        let mut random = Rng::with_seed(seed(21));
        let table: Vec<Links> = (0..EXTENTS).map(|_| Links::default()).collect();
        let links = |id: ExtentId| &table[id.to_raw() as usize - 1];
        let mut lists = [ListHead::default(); 2];
        let mut queues = [VecDeque::new(), VecDeque::new()];
        let mut unlisted: Vec<_> = (1..=EXTENTS as u32).filter_map(ExtentId::from_raw).collect();
        for _ in 0..5_000 {
            let nth = random.usize(..2);
            let (list, queue) = (&mut lists[nth], &mut queues[nth]);
            if random.bool() && !unlisted.is_empty() {
                let id = unlisted.swap_remove(random.usize(..unlisted.len()));
                list.push_front(id, links);
                queue.push_front(id);
            } else if !queue.is_empty() {
                let id = queue.remove(random.usize(..queue.len())).unwrap();
                list.remove(id, links);
                unlisted.push(id);
            }
            for (list, queue) in lists.iter().zip(&queues) {
                assert!(list.iter(links).eq(queue.iter().copied()));
                assert_eq!(
                    (list.first(), list.is_empty()),
                    (queue.front().copied(), queue.is_empty())
                );
                assert_eq!(list.check(links), queue.len());
            }
        }
    }

    #[test]
    #[should_panic(expected = "what is before")]
    fn links_that_disagree_are_found() {
        let table = [Links::default(), Links::default()];
        let links = |id: ExtentId| &table[id.to_raw() as usize - 1];
        let mut list = ListHead::default();
        (1..=2).filter_map(ExtentId::from_raw).for_each(|id| list.push_front(id, links));
        table[0].clear();
        list.check(links);
    }
}
