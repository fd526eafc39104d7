//! The memory of a process by kind, for the message about a limit that can't be kept.

use crate::chunk;
use crate::pager::Pager;
use crate::policy::CLOCK_WINDOW;
use crate::state::State;

/// The memory that a process holds and can't evict, in bytes, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Compressed data, and the memory that manages them.
    pub compressed: u64,
    /// The part of `compressed` that is stored uncompressed, because compression does not make it
    /// smaller.
    pub incompressible: u64,
    /// Blocks that are resident because system calls or locks pin them.
    pub pinned: u64,
    /// Other resident blocks: the minimum that a process needs, blocks whose eviction frees
    /// nothing, and blocks that were pinned for calls which have returned.
    pub resident: u64,
    /// Blocks that stay resident because a debugger reads them.
    pub debugged: u64,
    /// Shared memory.
    pub shared: u64,
    /// Private memory that is outside the arena, or inside it but not managed.
    pub unmanaged: u64,
}

impl Holdings {
    /// Returns the sum of all kinds, in bytes.
    pub fn all(&self) -> u64 {
        let managed = self.compressed + self.pinned + self.resident + self.debugged;
        managed + self.shared + self.unmanaged
    }
}

/// Returns the memory that this process held when it found that the limit of its tree can't be
/// kept. If this process has not found this, returns the memory that this process holds now.
pub(crate) fn holdings(pager: &Pager) -> Holdings {
    let Some(member) = &pager.limit.member else { return Holdings::default() };
    let kept = member.unevictable().unwrap_or_else(|| pager.limit.unevictable(member));
    let stored_whole = pager.device.mm_stat().huge_pages * page::page_size() as u64;
    let pinned = pinned_bytes(pager).min(kept.resident);
    let others = kept.resident - pinned;
    let (resident, debugged) = if pager.limit.keeps_all() { (0, others) } else { (others, 0) };
    Holdings {
        compressed: kept.compressed,
        incompressible: stored_whole.min(kept.compressed),
        pinned,
        resident,
        debugged,
        shared: kept.shared,
        unmanaged: kept.unmanaged,
    }
}

fn pinned_bytes(pager: &Pager) -> u64 {
    let (mut window, mut pinned) = (0, 0);
    while let Some(open) = chunk::next_open_window(pager, window) {
        let blocks = open * CLOCK_WINDOW..pager.blocks().min((open + 1) * CLOCK_WINDOW);
        let is_pinned = |block: &usize| {
            let seen = pager.words[*block].load();
            seen.state() == State::Resident && seen.pins() > 0
        };
        pinned += blocks.filter(is_pinned).count() * pager.sizes.block;
        window = open + 1;
        if window * CLOCK_WINDOW >= pager.blocks() {
            break;
        }
    }
    pinned as u64
}
