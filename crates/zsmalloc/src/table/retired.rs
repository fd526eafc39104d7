//! Replaced nodes, which are kept until their readers have left.
//!
//! The safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::layout::NodeRef;
use super::policy::RETIRED_CHAINS_MAX;

/// Whether a wide node after retired packed nodes is retired with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Goes,
    Stays,
}

/// The first nodes of retired chains, in the order in which the chains were retired. No link leads
/// to a retired chain any more, but readers may still use the chain.
#[derive(Debug)]
pub(super) struct Retired {
    chains: [Option<(NodeRef, Behind)>; RETIRED_CHAINS_MAX],
    len: usize,
    /// The number of chains freed so far.
    freed: u64,
}

impl Default for Retired {
    fn default() -> Self {
        Retired { chains: [None; RETIRED_CHAINS_MAX], len: 0, freed: 0 }
    }
}

impl Retired {
    pub(super) fn has_room(&self) -> bool {
        self.len < RETIRED_CHAINS_MAX
    }

    /// Adds a chain, to be freed when all present readers have left.
    ///
    /// # Safety
    /// No link leads to the chain now or later (zs-W2, zs-W3). The chain belongs to the table of
    /// this list.
    pub(super) unsafe fn add(&mut self, first: NodeRef, behind: Behind) {
        self.chains[self.len] = Some((first, behind));
        self.len += 1;
    }

    pub(super) fn retired_count(&self) -> u64 {
        self.freed + self.len as u64
    }

    /// Removes and returns the oldest chain, if it is among the first `until` chains ever retired.
    pub(super) fn take(&mut self, until: u64) -> Option<(NodeRef, Behind)> {
        if self.len == 0 || self.freed >= until {
            return None;
        }
        self.freed += 1;
        self.len -= 1;
        let first = self.chains[0].take();
        self.chains.rotate_left(1);
        first
    }
}
