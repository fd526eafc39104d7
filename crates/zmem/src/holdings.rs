//! The memory of a process by kinds, for a message about a limit that can't be kept.

use crate::pager::Pager;
use crate::policy::PIECE;
use crate::state::State;

/// The memory that a process holds, in bytes, by the reasons why it can't be evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Compressed data, with the memory that manages them.
    pub compressed: u64,
    /// The part of it that is stored uncompressed, because compression does not make it smaller.
    pub incompressible: u64,
    /// Blocks that system calls and locks keep resident.
    pub pinned: u64,
    /// Shared memory.
    pub shared: u64,
    /// Private memory beside the arena, or that the arena does not manage.
    pub unmanaged: u64,
}

impl Pager {
    /// Returns what this process holds.
    pub(crate) fn holdings(&self) -> Holdings {
        let mm = self.device.mm_stat();
        let member = self.limit.member.as_ref();
        let counted = self.limit.held();
        Holdings {
            compressed: counted - self.limit.resident_bytes().min(counted),
            incompressible: mm.huge_pages * page::page_size() as u64,
            pinned: self.pinned_bytes(),
            shared: member.map_or(0, |member| member.shared_bytes()),
            unmanaged: member.map_or(0, |member| member.beside_bytes()),
        }
    }

    fn pinned_bytes(&self) -> u64 {
        let (mut piece, mut pinned) = (0, 0);
        while let Some(open) = self.next_open_piece(piece) {
            let units = open * PIECE..self.units().min((open + 1) * PIECE);
            let is_pinned = |unit: &usize| {
                let seen = self.words[*unit].load();
                seen.state() == State::Resident && seen.pins() > 0
            };
            pinned += units.filter(is_pinned).count() * self.blocks.unit;
            piece = open + 1;
            if piece * PIECE >= self.units() {
                break;
            }
        }
        pinned as u64
    }
}
