//! Limits of memory: the budget and the supply. The budget counts committed pages up to a limit:
//! `used <= limit` at all times, except after the limit is lowered. A supply is a hook by which a
//! test, or another limit of memory, refuses requests.

use crate::Error;
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use std::fmt::Debug;

/// Pages that are charged until this value is dropped. [`keep`](Self::keep) leaves the pages
/// charged.
pub(crate) struct Charge<'b> {
    budget: &'b Budget,
    pages: usize,
}

impl Charge<'_> {
    /// Leaves the pages charged.
    #[inline]
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.budget.uncharge(self.pages);
    }
}

/// A count of pages in use, with a limit that can change at any time.
///
/// If the limit is set below the number of pages in use, no page is released. Charges then fail
/// until enough pages are released. A charge during the change of the limit can still be compared
/// with the old limit.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Budget {
    /// Returns a budget of `limit` pages; `None` means no limit.
    pub fn new(limit: Option<usize>) -> Self {
        Budget {
            limit: AtomicUsize::new(limit.unwrap_or(usize::MAX)),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Returns the number of pages in use.
    #[inline]
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Returns the maximum number of pages in use since the last [`reset_peak`](Self::reset_peak).
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// Returns the limit in pages, if there is one.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit != usize::MAX)
    }

    /// Sets the limit, or removes it if `limit` is `None`.
    pub fn set_limit(&self, limit: Option<usize>) {
        self.limit.store(limit.unwrap_or(usize::MAX), Relaxed);
    }

    /// Sets the peak to the number of pages in use.
    pub fn reset_peak(&self) {
        self.peak.store(self.used(), Relaxed);
    }

    /// Sets the number of pages in use to `used`. A child of a fork calls this function after it
    /// has counted its pages.
    pub(crate) fn recount(&self, used: usize) {
        self.used.store(used, Relaxed);
    }

    /// Counts `pages` more pages as in use. If the limit would be exceeded, returns an error and
    /// counts no page.
    pub(crate) fn charge(&self, pages: usize) -> Result<(), Error> {
        let limit = self.limit.load(Relaxed);
        let charged = self.used.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(pages).filter(|&sum| sum <= limit)
        });
        match charged {
            Ok(before) => {
                let now = before + pages;
                if now > self.peak.load(Relaxed) {
                    self.peak.fetch_max(now, Relaxed);
                }
                Ok(())
            }
            Err(used) => Err(Error::Limit { limit, used, wanted: pages }),
        }
    }

    /// Counts `pages` more pages as in use until the result is dropped. [`Charge::keep`] makes the
    /// charge permanent.
    #[inline]
    pub(crate) fn try_charge(&self, pages: usize) -> Result<Charge<'_>, Error> {
        self.charge(pages)?;
        Ok(Charge { budget: self, pages })
    }

    /// Counts `pages` charged pages as no longer in use.
    pub(crate) fn uncharge(&self, pages: usize) {
        let before = self.used.fetch_sub(pages, Relaxed);
        debug_assert!(before >= pages, "{pages} pages given back of {before}");
    }
}

/// A request that a [`Space`](crate::Space), or a table outside of a space, is about to make to the
/// system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A mapping of address space.
    Map {
        /// The bytes of the mapping.
        bytes: usize,
    },
    /// The commit of pages, which the budget already counts.
    Commit {
        /// The number of pages.
        pages: usize,
    },
    /// An allocation outside of any space, whose memory is touched immediately.
    Allocate {
        /// The bytes of the allocation.
        bytes: usize,
    },
}

/// Grants or refuses requests before they reach the system. A refusal has the effect of a refusal
/// by the system, so tests can reach every failure path.
///
/// [`grant`](Self::grant) is called while the locks of the space and of its owners are held.
/// `grant` must take no lock of the space or of its owners, and must not fork.
pub trait Supply: Debug + Send + Sync {
    /// Returns whether the request is granted.
    fn grant(&self, request: Request) -> bool;
}

/// A supply for tests, which refuses the n-th request, or every request from the n-th on.
#[derive(Debug)]
pub struct RefuseNth {
    nth: usize,
    from_then_on: bool,
    requests: AtomicUsize,
}

impl RefuseNth {
    /// Returns a supply that refuses request `nth`, counted from 1. If `from_then_on` is true, it
    /// also refuses all later requests.
    pub fn new(nth: usize, from_then_on: bool) -> Self {
        RefuseNth { nth, from_then_on, requests: AtomicUsize::new(0) }
    }

    /// Returns the number of requests made so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Relaxed)
    }
}

impl Supply for RefuseNth {
    fn grant(&self, _: Request) -> bool {
        let now = self.requests.fetch_add(1, Relaxed) + 1;
        now < self.nth || (now > self.nth && !self.from_then_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_up_to_the_limit_and_not_beyond() {
        let budget = Budget::new(Some(10));
        budget.charge(10).unwrap();
        let refused = budget.charge(1).unwrap_err();
        assert_eq!(refused, Error::Limit { limit: 10, used: 10, wanted: 1 });
        budget.uncharge(4);
        budget.charge(4).unwrap();
        assert_eq!((budget.used(), budget.peak()), (10, 10));
    }

    #[test]
    fn a_lowered_limit_takes_nothing_away() {
        let budget = Budget::new(None);
        budget.charge(8).unwrap();
        budget.set_limit(Some(4));
        assert!(budget.charge(1).is_err());
        budget.uncharge(5);
        budget.charge(1).unwrap();
        budget.reset_peak();
        assert_eq!((budget.used(), budget.peak(), budget.limit()), (4, 4, Some(4)));
    }

    #[test]
    fn a_sum_that_overflows_is_refused() {
        let budget = Budget::new(None);
        budget.charge(1).unwrap();
        assert!(budget.charge(usize::MAX).is_err());
        assert_eq!(budget.used(), 1);
    }
}
