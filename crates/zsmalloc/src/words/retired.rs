//! Nodes that were replaced, until their readers have left.

use super::node::Link;

/// Nodes retired at most before readers are waited for.
pub(super) const BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// Nodes that no link names any more, though readers may still look at them: in the order they went.
#[derive(Debug)]
pub(super) struct Retired {
    links: [Option<Link>; BATCH],
    len: usize,
    /// Nodes given back so far.
    freed: u64,
}

impl Default for Retired {
    fn default() -> Self {
        Retired { links: [None; BATCH], len: 0, freed: 0 }
    }
}

impl Retired {
    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.len < BATCH
    }

    pub(super) fn add(&mut self, link: Link) {
        self.links[self.len] = Some(link);
        self.len += 1;
    }

    /// Nodes that went so far.
    pub(super) fn gone(&self) -> u64 {
        self.freed + self.len as u64
    }

    /// Takes the first out, if it is among the first `until` that went.
    pub(super) fn take(&mut self, until: u64) -> Option<Link> {
        if self.len == 0 || self.freed >= until {
            return None;
        }
        self.freed += 1;
        self.len -= 1;
        let first = self.links[0].take();
        self.links.rotate_left(1);
        first
    }
}
