//! Supplies that refuse memory.

use page::{RefuseNth, Request, Supply};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::Choices;

/// The requests for memory that are refused: request number `nth`, counted from 1. If
/// `from_then_on` is true, all later requests are refused too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuse {
    pub nth: usize,
    pub from_then_on: bool,
}

impl Refuse {
    /// Refuses no request, and only counts requests.
    pub const NOTHING: Refuse = Refuse { nth: usize::MAX, from_then_on: false };

    /// Draws the requests to refuse. Usually returns `None`.
    pub fn draw(choices: &mut Choices) -> Option<Self> {
        let (choice, nth) = (choices.below(8), 1 + choices.below(256));
        (choice < 2).then_some(Refuse { nth, from_then_on: choice == 1 })
    }

    pub fn supply(self) -> Arc<RefuseNth> {
        Arc::new(RefuseNth::new(self.nth, self.from_then_on))
    }

    /// Returns true if any request is refused.
    pub fn refuses(self) -> bool {
        self.nth != Refuse::NOTHING.nth
    }
}

/// Calls `run` once for each request that `run` makes, and refuses this request. If `from_then_on`
/// is true, all later requests are refused too. `run` returns the counts of requests, or `None` if
/// the creation was refused.
pub fn refuse_every(from_then_on: bool, run: impl Fn(Refuse) -> Option<Requests>) {
    let of_setup = run(Refuse::NOTHING).expect("nothing is refused").of_setup;
    assert!(of_setup > 0, "the set-up asks for nothing");
    for nth in 1.. {
        let requests = run(Refuse { nth, from_then_on });
        assert_eq!(requests.is_none(), nth <= of_setup, "request {nth} of {of_setup}");
        if requests.is_some_and(|requests| requests.all < nth) {
            assert!(nth > of_setup + 20, "nothing was asked for after the set-up");
            return;
        }
    }
}

/// The counts of requests for memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    pub of_setup: usize,
    pub all: usize,
}

/// A supply that acts like a system with strict accounting of memory. The supply grants only
/// segments of 1 MiB. After each refusal, a request for half the size must follow.
#[derive(Debug, Default)]
pub struct SmallSegments {
    refused: AtomicUsize,
}

impl Supply for SmallSegments {
    fn grant(&self, request: Request) -> bool {
        let Request::Map { bytes } = request else { return true };
        let is_segment = bytes >= 64 << 20 || bytes * 2 == self.refused.load(Relaxed);
        let is_refused = is_segment && bytes > 1 << 20;
        self.refused.store(if is_refused { bytes } else { 0 }, Relaxed);
        !is_refused
    }
}
