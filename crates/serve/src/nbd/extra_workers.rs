//! The extra workers: the workers of connections in addition to the first worker of each
//! connection. All connections share the extra workers, so that one limit bounds all their threads
//! and buffers.
//!
//! A connection gets another extra worker if it has fewer extra workers than are free. A connection
//! releases an extra worker if it has at least two more extra workers than are free. So if n
//! connections are busy, each connection eventually has 1/(n+1) of the extra workers. The remaining
//! 1/(n+1) stays free for the next connection. A client that receives no replies keeps its workers,
//! and the other connections share the remaining workers. Each connection always has its first
//! worker.

use super::bounds::EXTRA_WORKERS;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The extra workers of a server.
#[derive(Debug, Default)]
pub(crate) struct ExtraWorkers {
    used: AtomicUsize,
}

/// An extra worker of a connection. A drop makes the extra worker available to other connections.
#[derive(Debug)]
pub(crate) struct ExtraWorker<'c> {
    all: &'c ExtraWorkers,
    /// The number of extra workers of the connection.
    own: &'c AtomicUsize,
}

impl ExtraWorkers {
    /// Returns another extra worker for a connection that has `own` extra workers, if `own` is less
    /// than the number of free ones. Only one thread at a time is allowed to call this function for
    /// a connection.
    pub(crate) fn take<'c>(&'c self, own: &'c AtomicUsize) -> Option<ExtraWorker<'c>> {
        let has = own.load(Relaxed);
        let one_more = |used: usize| (has < EXTRA_WORKERS.saturating_sub(used)).then_some(used + 1);
        self.used.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        own.fetch_add(1, Relaxed);
        Some(ExtraWorker { all: self, own })
    }
}

impl ExtraWorker<'_> {
    /// Returns whether the connection has more extra workers than its share.
    pub(crate) fn is_surplus(&self) -> bool {
        let free = EXTRA_WORKERS.saturating_sub(self.all.used.load(Relaxed));
        self.own.load(Relaxed) > free + 1
    }
}

impl Drop for ExtraWorker<'_> {
    fn drop(&mut self) {
        self.own.fetch_sub(1, Relaxed);
        self.all.used.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all extra workers that a connection can get.
    fn all_of<'c>(all: &'c ExtraWorkers, own: &'c AtomicUsize) -> Vec<ExtraWorker<'c>> {
        std::iter::from_fn(|| all.take(own)).collect()
    }

    #[test]
    fn a_connection_alone_has_half_and_others_have_a_part_of_the_rest() {
        let all = ExtraWorkers::default();
        let owns: [AtomicUsize; 3] = Default::default();
        let taken: Vec<_> = owns.iter().map(|own| all_of(&all, own)).collect();
        let counts: Vec<usize> = taken.iter().map(Vec::len).collect();
        assert_eq!(counts, [EXTRA_WORKERS / 2, EXTRA_WORKERS / 4, EXTRA_WORKERS / 8]);
        drop(taken);
        assert_eq!(all.used.into_inner(), 0);
        assert!(owns.into_iter().all(|own| own.into_inner() == 0));
    }

    #[test]
    fn busy_connections_come_to_equal_shares() {
        let all = ExtraWorkers::default();
        let owns: [AtomicUsize; 3] = Default::default();
        let mut taken: Vec<_> = owns.iter().map(|own| all_of(&all, own)).collect();
        for _ in 0..EXTRA_WORKERS {
            for (own, taken) in owns.iter().zip(&mut taken) {
                while taken.pop_if(|last| last.is_surplus()).is_some() {}
                taken.extend(all.take(own));
            }
        }
        let share = EXTRA_WORKERS / 4;
        assert!(taken.iter().all(|taken| taken.len().abs_diff(share) <= 1), "shares of {share}");
    }
}
