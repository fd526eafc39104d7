//! A count of committed pages with a hard limit and a soft one. `used <= limit` at all times.

use crate::Error;
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Pages that were charged, and go back when it is dropped.
pub(crate) struct Charge<'b> {
    budget: &'b Budget,
    pages: usize,
}

impl Charge<'_> {
    /// They stay charged.
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

/// Counts pages in use against a limit that may change at any time.
///
/// A limit set below what is in use takes nothing away; it refuses more until enough was given
/// back. What is being charged while the limit changes may still be held against the old one.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
    soft: AtomicUsize,
    /// Held by waiters between their look at `used` and their sleep, so that no wake-up is missed.
    waiters: Mutex<()>,
    woken: Condvar,
}

impl Budget {
    /// A budget of `limit` pages; `None` is no limit.
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

    /// Pages in use.
    #[inline]
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

    /// The soft limit in pages, if there is one.
    pub fn soft_limit(&self) -> Option<usize> {
        Some(self.soft.load(Relaxed)).filter(|&soft| soft != usize::MAX)
    }

    /// Sets or lifts the soft limit: it refuses nothing, but whoever waits is told when it is
    /// reached.
    pub fn set_soft_limit(&self, soft: Option<usize>) {
        self.soft.store(soft.unwrap_or(usize::MAX), SeqCst);
        self.wake();
    }

    /// Whether the soft limit is reached.
    pub fn is_near(&self) -> bool {
        self.used.load(SeqCst) >= self.soft.load(SeqCst)
    }

    /// Waits until the soft limit is reached, `timeout` at most; whether it is.
    pub fn wait_near(&self, timeout: Duration) -> bool {
        // A time too long to be told is for ever.
        let end = Instant::now().checked_add(timeout);
        let left = |end: Instant| end.checked_duration_since(Instant::now());
        let mut waiting = self.waiters.lock();
        while !self.is_near() {
            let Some(left) = end.map_or(Some(timeout), left) else { return false };
            waiting = self.woken.wait_timeout(waiting, left).0;
        }
        true
    }

    /// Makes the count what was found to be in use: after a fork, in a child that lost other
    /// threads.
    pub(crate) fn recount(&self, used: usize) {
        self.used.store(used, SeqCst);
    }

    /// Holds the lock of those who wait, over a fork.
    pub(crate) fn lock_for_fork(&self) {
        self.waiters.lock_for_fork();
    }

    pub(crate) fn unlock_after_fork(&self) {
        self.waiters.unlock_after_fork();
    }

    fn wake(&self) {
        drop(self.waiters.lock());
        self.woken.notify_all();
    }

    /// Takes `pages`, or nothing and an error where that would pass the limit.
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

    /// As [`charge`](Self::charge), to be uncharged unless it is kept.
    #[inline]
    pub(crate) fn try_charge(&self, pages: usize) -> Result<Charge<'_>, Error> {
        self.charge(pages)?;
        Ok(Charge { budget: self, pages })
    }

    /// Gives back `pages` that were charged.
    pub(crate) fn uncharge(&self, pages: usize) {
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
