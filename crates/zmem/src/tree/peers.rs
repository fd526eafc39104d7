//! Processes that read and write each other's memory by system calls.
//!
//! ```text
//!   word of a slot: 0 --hears--> HEARS --asked--> HEARS | ASKED --agrees--> HEARS | ASKED | AGREED
//!                   ^                     a signal is on its way: SENDING          |
//!                   '---- `deafen`, before the process executes a program <--------'
//! ```
//! A process whose memory another one reads fills no block in place, because the other one would
//! see half of it (zm-L17). The reader asks for that in the other process's slot, and waits until
//! that has agreed. Each block that the other process was filling is whole then.
//!
//! A signal would end a program that has no handler for it yet. So a process that is about to
//! execute one hears no more, and waits until a signal that is on its way has come.

use super::{Member, Tree};
use crate::poke::ask_for;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

const HEARS: u64 = 1;
const ASKED: u64 = 2;
const AGREED: u64 = 4;
const SENDING: u64 = 8;
/// After this number of looks in vain, the sender counts as killed.
const LOOKS: usize = 100_000;

/// Sets bits of a word if the process hears. Returns the word before.
fn set(word: &AtomicU64, bits: u64) -> Option<u64> {
    let heard = |seen: u64| (seen & HEARS != 0).then_some(seen | bits);
    word.fetch_update(AcqRel, Acquire, heard).ok()
}

impl Tree {
    fn peers_of(&self, process: u64) -> Option<&AtomicU64> {
        let nth = self.in_use().find(|nth| self.slot(*nth).process.load(Acquire) == process)?;
        Some(self.slot(nth).peers)
    }

    /// Asks a process to fill no block in place. Returns whether it has agreed, or `None` if it is
    /// none of the tree that hears.
    pub fn ask_peer(&self, process: u64) -> Option<bool> {
        set(self.peers_of(process)?, ASKED).map(|before| before & AGREED != 0)
    }

    /// Asks a process for its memory at an address, if it hears and nobody else asks it.
    pub fn ask_for(&self, process: u64, address: usize) {
        let free = |seen: u64| (seen & (HEARS | SENDING) == HEARS).then_some(seen | SENDING);
        if let Some(word) = self.peers_of(process)
            && word.fetch_update(AcqRel, Acquire, free).is_ok()
        {
            ask_for(process as i32, address);
            word.fetch_and(!SENDING, AcqRel);
        }
    }
}

impl Member {
    /// Says that this process has a handler for signals of its tree.
    pub(crate) fn hear(&self) {
        self.own_slot().inspect(|slot| _ = slot.peers.fetch_or(HEARS, AcqRel));
    }

    /// Says that this process hears no more. A signal that was sent has come when this returns.
    pub(crate) fn deafen(&self) {
        let Some(slot) = self.own_slot() else { return };
        slot.peers.fetch_and(!HEARS, AcqRel);
        for _ in 0..LOOKS {
            if slot.peers.load(Acquire) & SENDING == 0 {
                break;
            }
            std::thread::yield_now();
        }
        // It comes at the end of a system call.
        std::thread::yield_now();
    }

    /// Agrees, as no thread of this process fills a block.
    pub(crate) fn agree(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, AGREED));
    }

    /// Returns whether another process reads this one's memory, or is about to.
    pub(crate) fn has_peers(&self) -> bool {
        self.slot().is_some_and(|slot| slot.peers.load(Acquire) & ASKED != 0)
    }
}
