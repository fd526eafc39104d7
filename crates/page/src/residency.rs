//! Records which pages of an extent have memory, and which of these pages hold no live object.

use crate::bits::{PageSet, WORDS};
use crate::sync::Ordering::Relaxed;
use std::ops::Range;

/// The committed pages of an extent, and those committed pages that hold no live object (retained
/// pages).
///
/// ```text
///   untouched --enter--> committed --leave--> retained --releasable .. released--------> untouched
///                            ^                   | ^
///                            '-------enter-------' '------prefault-- untouched
/// ```
/// A page can be released without the owner's lock. The page then stays retained until
/// [`released`](Self::released). During the release, the owner allocates no slots on the page, and
/// records separately that the extent is busy. The owner ensures that one thread at a time changes
/// the residency.
#[derive(Debug, Default)]
pub struct Residency<const W: usize = WORDS> {
    committed: PageSet<W>,
    retained: PageSet<W>,
}

impl<const W: usize> Residency<W> {
    /// Returns the pages that are counted in the budget, including the retained ones.
    pub fn committed(&self) -> &PageSet<W> {
        &self.committed
    }

    /// Returns the pages that are counted in the budget although no live object lies on them.
    pub fn retained(&self) -> &PageSet<W> {
        &self.retained
    }

    /// Returns the number of `pages` that are not committed, and must be committed before an object
    /// lies on them.
    #[inline]
    pub fn missing(&self, pages: Range<u32>) -> u32 {
        pages.len() as u32 - self.committed.count(pages)
    }

    /// Marks `pages` as holding a live object. The caller has charged them to the budget. Returns
    /// the number of pages that were retained.
    #[inline]
    pub fn enter(&self, pages: Range<u32>) -> u32 {
        // If all pages are committed and none is retained, as usual, no set is written.
        if !self.committed.contains_all(pages.clone()) {
            self.committed.set(pages.clone());
        }
        if self.retained.contains_any(pages.clone()) { self.retained.unset(pages) } else { 0 }
    }

    /// Marks a committed page as retained, because no live object lies on it. Returns true if the
    /// page was not retained already.
    #[inline]
    pub fn leave(&self, page: u32) -> bool {
        debug_assert!(self.committed.contains(page), "page {page} is left, and not committed");
        self.retained.set(page..page + 1) == 1
    }

    /// Marks untouched pages, which are charged to the budget, as retained.
    pub fn prefault(&self, pages: Range<u32>) {
        debug_assert!(!self.committed.contains_any(pages.clone()), "{pages:?} are committed");
        self.committed.set(pages.clone());
        self.retained.set(pages);
    }

    /// Returns the highest retained pages, at most `most`, which the owner is then allowed to
    /// release.
    pub fn releasable(&self, most: u32) -> PageSet<W> {
        let highest = PageSet::default();
        let mut left = most;
        for (nth, word) in self.retained.0.iter().enumerate().rev() {
            let mut bits = word.load(Relaxed);
            for _ in left..bits.count_ones() {
                bits &= bits - 1;
            }
            left -= bits.count_ones();
            highest.0[nth].store(bits, Relaxed);
        }
        highest
    }

    /// Marks retained pages as untouched after they were released to the system. Returns the number
    /// of these pages.
    pub fn released(&self, gone: &PageSet<W>) -> u32 {
        for pages in gone.runs() {
            debug_assert!(self.retained.contains_all(pages.clone()), "{pages:?} are not retained");
            self.committed.unset(pages.clone());
            self.retained.unset(pages);
        }
        gone.len()
    }

    /// Makes every page untouched.
    pub fn clear(&self) {
        self.committed.unset_all();
        self.retained.unset_all();
    }

    /// Clears the set of retained pages, for an owner that recomputes on which pages objects lie.
    pub fn clear_retained(&self) {
        self.retained.unset_all();
    }

    /// Asserts that a page is committed exactly if it is retained or has a live object.
    pub fn check(&self, live: impl Fn(u32) -> bool) {
        for page in 0..W as u32 * 64 {
            let (is_live, is_retained) = (live(page), self.retained.contains(page));
            assert!(!(is_live && is_retained), "page {page} is retained under a live object");
            let is_committed = self.committed.contains(page);
            assert_eq!(is_committed, is_live || is_retained, "whether page {page} is committed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of a page in the model.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Page {
        Untouched,
        Live,
        Retained,
    }

    fn residency_against_a_model<const W: usize>() {
        let len = W * 64;
        let mut random = fastrand::Rng::with_seed(testkit::seed(13));
        let residency = Residency::<W>::default();
        let mut model = vec![Page::Untouched; len];
        for _ in 0..5_000 {
            let start = random.usize(..len);
            let pages = start..random.usize(start..len.min(start + 20)) + 1;
            let range = start as u32..pages.end as u32;
            let count = |which| model[pages.clone()].iter().filter(|&&page| page == which).count();
            match random.u32(..5) {
                0 | 1 => {
                    assert_eq!(residency.missing(range.clone()) as usize, count(Page::Untouched));
                    assert_eq!(residency.enter(range) as usize, count(Page::Retained));
                    model[pages].fill(Page::Live);
                }
                2 => {
                    for page in pages {
                        let was = model[page];
                        if was != Page::Untouched {
                            assert_eq!(residency.leave(page as u32), was == Page::Live);
                            model[page] = Page::Retained;
                        }
                    }
                }
                3 if count(Page::Untouched) == pages.len() => {
                    residency.prefault(range);
                    model[pages].fill(Page::Retained);
                }
                _ => {
                    let most = random.u32(..20);
                    let going = residency.releasable(most);
                    let retained = (0..len).rev().filter(|&page| model[page] == Page::Retained);
                    let mut highest: Vec<_> = retained.take(most as usize).collect();
                    highest.reverse();
                    assert!(going.runs().flatten().eq(highest.iter().map(|&page| page as u32)));
                    // A quarter of the pages are not released, as if they were locked.
                    highest.iter().filter(|_| random.u8(..4) == 0).for_each(|&page| {
                        going.unset(page as u32..page as u32 + 1);
                    });
                    assert_eq!(residency.released(&going), going.len());
                    going.runs().flatten().for_each(|page| model[page as usize] = Page::Untouched);
                }
            }
            residency.check(|page| model[page as usize] == Page::Live);
            let is = |which| model.iter().filter(|&&page| page == which).count() as u32;
            assert_eq!(residency.retained().len(), is(Page::Retained));
            assert_eq!(residency.committed().len(), is(Page::Retained) + is(Page::Live));
        }
        residency.clear_retained();
        assert!(residency.retained().is_empty());
        residency.clear();
        residency.check(|_| false);
    }

    #[test]
    fn residency_of_short_and_long_extents() {
        residency_against_a_model::<1>();
        residency_against_a_model::<4>();
    }
}
