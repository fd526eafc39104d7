//! Reduces a failing list of events to a short list that still fails.

use std::time::{Duration, Instant};

/// A failing list, and the number of other lists that were tried.
pub struct Shrunk<E> {
    pub events: Vec<E>,
    pub tries: usize,
}

const TRIES: usize = 2000;
const TIME: Duration = Duration::from_secs(60);

struct Search<E, F> {
    events: Vec<E>,
    tries: usize,
    fails: F,
    begun: Instant,
}

impl<E: Clone, F: FnMut(&[E]) -> bool> Search<E, F> {
    fn is_over(&self) -> bool {
        self.tries >= TRIES || self.begun.elapsed() > TIME
    }

    /// Adopts the list `events` if it also fails.
    fn take_if_it_fails(&mut self, events: Vec<E>) -> bool {
        self.tries += 1;
        let fails = (self.fails)(&events);
        if fails {
            self.events = events;
        }
        fails
    }

    /// Tries to remove halves of the list, then quarters, down to single events. Returns true if
    /// any event was removed.
    fn leave_out(&mut self) -> bool {
        let before = self.events.len();
        let mut part = before.div_ceil(2);
        while part > 0 && !self.is_over() {
            let (mut at, all) = (0, self.events.len());
            while at < self.events.len() && !self.is_over() {
                let end = (at + part).min(self.events.len());
                let others = [&self.events[..at], &self.events[end..]].concat();
                if !self.take_if_it_fails(others) {
                    at = end;
                }
            }
            // Tries single events again while any event can be removed.
            if part > 1 || self.events.len() == all {
                part /= 2;
            }
        }
        self.events.len() < before
    }

    /// Replaces events with simpler events. Returns true if any event was replaced.
    fn simplify(&mut self, simpler: &impl Fn(&E) -> Vec<E>) -> bool {
        let mut changed = false;
        for nth in 0..self.events.len() {
            let mut left = simpler(&self.events[nth]).into_iter();
            while let Some(event) = left.next().filter(|_| !self.is_over()) {
                let mut others = self.events.clone();
                others[nth] = event;
                if self.take_if_it_fails(others) {
                    changed = true;
                    left = simpler(&self.events[nth]).into_iter();
                }
            }
        }
        changed
    }
}

/// Returns a shorter list for which `fails` returns true. Removes events, and replaces events with
/// results of `simpler`, until no further change preserves the failure. Stops after 2000 tries or a
/// minute.
pub fn shrink<E: Clone>(
    events: Vec<E>,
    simpler: impl Fn(&E) -> Vec<E>,
    fails: impl FnMut(&[E]) -> bool,
) -> Shrunk<E> {
    let mut search = Search { events, tries: 0, fails, begun: Instant::now() };
    loop {
        let shorter = search.leave_out();
        let simpler = search.simplify(&simpler);
        if search.is_over() || !(shorter || simpler) {
            return Shrunk { events: search.events, tries: search.tries };
        }
    }
}
