//! The count of committed pages, with a hard limit and a soft one. `used <= limit` at all times,
//! but after the limit was lowered.

use crate::Error;
use crate::fork::Step;
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Pages that were charged, and are uncharged on drop unless they are kept.
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

/// A count of pages in use, against a limit that may change at any time.
///
/// A limit below the pages in use takes no page away; it refuses more until enough were given back.
/// A charge at the time of the change may still be compared with the old limit.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
    soft: AtomicUsize,
    /// Held by a waiter from its look at `used` until it sleeps, so that it misses no wake-up.
    waiters: Mutex<()>,
    woken: Condvar,
}

impl Budget {
    /// Returns a budget of `limit` pages; `None` is no limit.
    pub fn new(limit: Option<usize>) -> Self {
        Budget {
            limit: AtomicUsize::new(limit.unwrap_or(usize::MAX)),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            soft: AtomicUsize::new(usize::MAX),
            waiters: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// Returns the pages in use.
    #[inline]
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Returns the most pages that were in use since the last [`reset_peak`](Self::reset_peak).
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// Returns the limit in pages, if there is one.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit != usize::MAX)
    }

    /// Sets or lifts the limit.
    pub fn set_limit(&self, limit: Option<usize>) {
        self.limit.store(limit.unwrap_or(usize::MAX), Relaxed);
    }

    /// Sets the peak to the pages in use.
    pub fn reset_peak(&self) {
        self.peak.store(self.used(), Relaxed);
    }

    /// Sets or lifts the soft limit, in pages. It refuses nothing: passing it wakes the threads
    /// that wait for that.
    pub fn set_soft_limit(&self, soft: Option<usize>) {
        self.soft.store(soft.unwrap_or(usize::MAX), SeqCst);
        self.wake();
    }

    /// Returns whether the soft limit is reached.
    pub fn is_near(&self) -> bool {
        self.used.load(SeqCst) >= self.soft.load(SeqCst)
    }

    /// Waits until the soft limit is reached, but no longer than `timeout`. Returns whether it is.
    pub fn wait_near(&self, timeout: Duration) -> bool {
        // A timeout beyond the clock's range never ends.
        let end = Instant::now().checked_add(timeout);
        let left = |end: Instant| end.checked_duration_since(Instant::now());
        let mut waiting = self.waiters.lock();
        while !self.is_near() {
            let Some(left) = end.map_or(Some(timeout), left) else { return false };
            waiting = self.woken.wait_timeout(waiting, left).0;
        }
        true
    }

    /// Sets the pages in use to `used`, which a child counted after a fork that lost other threads.
    pub(crate) fn recount(&self, used: usize) {
        self.used.store(used, SeqCst);
    }

    /// Takes or releases the waiters' lock over a fork.
    pub(crate) fn at_fork(&self, step: Step) {
        self.waiters.at_fork(step);
    }

    fn wake(&self) {
        drop(self.waiters.lock());
        self.woken.notify_all();
    }

    /// Counts `pages` more as in use, or none of them if that would pass the limit.
    pub(crate) fn charge(&self, pages: usize) -> Result<(), Error> {
        let limit = self.limit.load(Relaxed);
        let charged = self.used.fetch_update(SeqCst, Relaxed, |used| {
            used.checked_add(pages).filter(|&sum| sum <= limit)
        });
        match charged {
            Ok(before) => {
                let now = before + pages;
                if now > self.peak.load(Relaxed) {
                    self.peak.fetch_max(now, Relaxed);
                }
                let soft = self.soft.load(SeqCst);
                if before < soft && now >= soft {
                    self.wake();
                }
                Ok(())
            }
            Err(used) => Err(Error::Limit { limit, used, wanted: pages }),
        }
    }

    /// Counts `pages` more as in use, until the result is dropped, or for good if it is kept.
    #[inline]
    pub(crate) fn try_charge(&self, pages: usize) -> Result<Charge<'_>, Error> {
        self.charge(pages)?;
        Ok(Charge { budget: self, pages })
    }

    /// Counts `pages`, which were charged, as no longer in use.
    pub(crate) fn uncharge(&self, pages: usize) {
        let before = self.used.fetch_sub(pages, Relaxed);
        debug_assert!(before >= pages, "{pages} pages given back of {before}");
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
    fn waiters_are_told_of_the_soft_limit() {
        let budget = Budget::new(Some(10));
        budget.set_soft_limit(Some(8));
        assert!(!budget.wait_near(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| budget.wait_near(Duration::from_secs(60)));
            for _ in 0..8 {
                assert!(!budget.is_near());
                budget.charge(1).unwrap();
            }
            assert!(waiter.join().unwrap());
        });
        budget.uncharge(1);
        assert!(!budget.is_near());
        budget.set_soft_limit(Some(7));
        assert!(budget.wait_near(Duration::ZERO));
    }

    #[test]
    fn a_sum_that_overflows_is_refused() {
        let budget = Budget::new(None);
        budget.charge(1).unwrap();
        assert!(budget.charge(usize::MAX).is_err());
        assert_eq!(budget.used(), 1);
    }
}
