//! A count of committed pages with a hard limit. `used <= limit` at all times.

use crate::Error;
use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// Counts pages in use against a limit that may change at any time.
///
/// A limit set below what is in use takes nothing away; it refuses more until enough was given back.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Budget {
    /// A budget of `limit` pages; `None` is no limit.
    pub fn new(limit: Option<usize>) -> Self {
        Budget {
            limit: AtomicUsize::new(limit.unwrap_or(usize::MAX)),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Pages in use.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The most pages that were in use since the last [`reset_peak`](Self::reset_peak).
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// The limit in pages, if there is one.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit != usize::MAX)
    }

    /// Sets or lifts the limit.
    pub fn set_limit(&self, limit: Option<usize>) {
        self.limit.store(limit.unwrap_or(usize::MAX), Relaxed);
    }

    /// Makes the peak what is in use now.
    pub fn reset_peak(&self) {
        self.peak.store(self.used(), Relaxed);
    }

    /// Takes `pages`, or nothing and an error where that would pass the limit.
    pub(crate) fn take(&self, pages: usize) -> Result<(), Error> {
        let limit = self.limit.load(Relaxed);
        let taken = self.used.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(pages).filter(|&sum| sum <= limit)
        });
        match taken {
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

    /// Gives back `pages` that were taken.
    pub(crate) fn give(&self, pages: usize) {
        let before = self.used.fetch_sub(pages, Relaxed);
        debug_assert!(before >= pages, "{pages} pages given back of {before}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_up_to_the_limit_and_not_beyond() {
        let budget = Budget::new(Some(10));
        budget.take(10).unwrap();
        let refused = budget.take(1).unwrap_err();
        assert_eq!(refused, Error::Limit { limit: 10, used: 10, wanted: 1 });
        budget.give(4);
        budget.take(4).unwrap();
        assert_eq!((budget.used(), budget.peak()), (10, 10));
    }

    #[test]
    fn a_lowered_limit_takes_nothing_away() {
        let budget = Budget::new(None);
        budget.take(8).unwrap();
        budget.set_limit(Some(4));
        assert!(budget.take(1).is_err());
        budget.give(5);
        budget.take(1).unwrap();
        budget.reset_peak();
        assert_eq!((budget.used(), budget.peak(), budget.limit()), (4, 4, Some(4)));
    }

    #[test]
    fn a_sum_that_overflows_is_refused() {
        let budget = Budget::new(None);
        budget.take(1).unwrap();
        assert!(budget.take(usize::MAX).is_err());
        assert_eq!(budget.used(), 1);
    }
}
