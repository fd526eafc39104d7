//! Nodes that were replaced, until their readers have left.
//!
//! Safety rules are those of [`node`](super::node).
#![allow(unsafe_code)]

use super::layout::NodeRef;

/// Nodes retired at most before readers are waited for.
pub(super) const BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// What becomes of a wide node behind packed ones that go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Goes,
    Stays,
}

/// Nodes that no link names any more, though readers may still look at them: the first of each
/// chain, in the order they went.
#[derive(Debug)]
pub(super) struct Retired {
    chains: [Option<(NodeRef, Behind)>; BATCH],
    len: usize,
    /// Chains given back so far.
    freed: u64,
}

impl Default for Retired {
    fn default() -> Self {
        Retired { chains: [None; BATCH], len: 0, freed: 0 }
    }
}

impl Retired {
    /// Returns whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.len < BATCH
    }

    /// Adds a chain, which is given back when all who are inside now have left.
    ///
    /// # Safety
    /// No link names it any more, nor will (zs-W2, zs-W3); it is of the table that this is of.
    pub(super) unsafe fn add(&mut self, first: NodeRef, behind: Behind) {
        self.chains[self.len] = Some((first, behind));
        self.len += 1;
    }

    /// Chains that went so far.
    pub(super) fn retired_count(&self) -> u64 {
        self.freed + self.len as u64
    }

    /// Takes the first out, if it is among the first `until` that went.
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
