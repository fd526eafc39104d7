//! The events of a model of a region, and simpler events.

use super::*;
use crate::contents::{lower, shorter};

/// A limit in bytes, relative to the lowest possible limit.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    Off,
    Above(u64),
    /// A limit that is refused.
    TooLow(u64),
}

#[derive(Clone, Debug)]
pub enum Event {
    Write {
        at: usize,
        len: usize,
        data: Data,
    },
    /// Writes pages with contents of different kinds.
    Mixed {
        at: usize,
        len: usize,
        stamp: u64,
    },
    Read {
        at: usize,
        len: usize,
    },
    /// Reads or writes `count` single bytes at a distance of `step` bytes from each other.
    Touch {
        at: usize,
        step: isize,
        count: usize,
        is_write: bool,
    },
    Reclaim {
        bytes: usize,
    },
    Advise {
        at: usize,
        len: usize,
        advice: Advice,
    },
    Prefetch {
        at: usize,
        len: usize,
    },
    DontNeed {
        at: usize,
        len: usize,
    },
    Lock {
        at: usize,
        len: usize,
    },
    Unlock {
        nth: usize,
    },
    /// Locks a block repeatedly until a lock is refused.
    LockOften {
        at: usize,
    },
    SetLimit(Limit),
    /// Passes a range of the region to write(2).
    Save {
        at: usize,
        len: usize,
        is_locked: bool,
    },
    /// Passes a range of the region to read(2).
    Load {
        at: usize,
        len: usize,
        data: Data,
        is_locked: bool,
    },
    /// Raises a signal whose handler touches a byte.
    Interrupt {
        at: usize,
    },
    /// A child writes to its copy of the region, and a child of that child writes to its own copy.
    InChild {
        at: usize,
        len: usize,
        data: Data,
    },
    /// A child that is created without fork handlers writes to its copy of the region.
    Unnoticed {
        at: usize,
        len: usize,
        data: Data,
    },
    Start {
        work: Work,
        seed: u64,
    },
    Stop,
    /// Makes requests for a range that does not lie within the region. All of these requests must
    /// be refused.
    PastTheEnd {
        start: usize,
        end: usize,
    },
}

impl Event {
    /// Returns simpler events.
    pub(super) fn simpler(&self) -> Vec<Event> {
        let one = |of: &dyn Fn(usize, usize) -> Event, at, len| {
            let shorter = shorter(len).map(|len| of(at, len));
            shorter.chain(lower(at, PAGE).map(|at| of(at, len))).collect()
        };
        match *self {
            Event::Write { at, len, data } => {
                let of = |at, len| Event::Write { at, len, data };
                let simpler = data.simpler().into_iter();
                let simpler = simpler.map(|data| Event::Write { at, len, data });
                simpler.chain(one(&of, at, len)).collect::<Vec<_>>()
            }
            Event::Mixed { at, len, stamp } => {
                vec![Event::Write { at, len, data: Runs(stamp, 64) }]
            }
            Event::Read { at, len } => one(&|at, len| Event::Read { at, len }, at, len),
            Event::DontNeed { at, len } => one(&|at, len| Event::DontNeed { at, len }, at, len),
            Event::Lock { at, len } => one(&|at, len| Event::Lock { at, len }, at, len),
            Event::Prefetch { at, len } => vec![Event::Read { at, len }],
            Event::Advise { at, len, advice } => {
                one(&|at, len| Event::Advise { at, len, advice }, at, len)
            }
            Event::Touch { at, step, count, is_write } => {
                let of = |count| Event::Touch { at, step, count, is_write };
                shorter(count).map(of).collect()
            }
            Event::Start { work, seed } if work != Parked => {
                vec![Event::Start { work: Parked, seed }]
            }
            Event::Unnoticed { at, len, data } => vec![Event::InChild { at, len, data }],
            _ => vec![],
        }
    }
}
