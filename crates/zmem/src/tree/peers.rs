//! Processes that read and write each other's memory by system calls.
//!
//! ```text
//!   word of a slot: 0 --hears--> HEARS --asked--> HEARS | ASKED --agrees--> HEARS | ASKED | AGREED
//!                   ^                     a signal is being sent: SENDING          |
//!                   '---- `deafen`, before the process executes a program <--------'
//! ```
//! A process whose memory another process reads fills no block in place, because the reader could
//! see a partly filled block (zm-L17). The reader asks for this in the other process's slot, and
//! waits until the process has agreed. The blocks that the process was filling are then complete.
//!
//! A process whose memory a debugger of the tree reads keeps all of its memory resident (zm-L19):
//!
//! ```text
//!   HEARS --asked: fills absent blocks and evicts nothing--> KEEPS --all is back--> KEEPS | WHOLE
//!         ^                                                    ^--- the next debugger asks ---|
//!         '---- the debugger has left ----- KEEPS, WHOLE <------------------------------------'
//! ```
//!
//! The request is a signal, which would kill a program that has no handler yet. So a process that
//! is about to execute a program stops accepting requests (clears HEARS), and waits until a signal
//! that is being sent has arrived.

use super::{Member, Tree};
use crate::poke::{Asked, ask};
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

const HEARS: u64 = 1;
const ASKED: u64 = 2;
const AGREED: u64 = 4;
const SENDING: u64 = 8;
pub(super) const KEEPS: u64 = 16;
const WHOLE: u64 = 32;
/// A bit: a filter of system calls forbids the calls that keep memory resident.
const CONFINED: u64 = 64;
/// If `SENDING` is still set after this number of loads of a word, the process that was sending the
/// signal is treated as killed.
const LOOKS: usize = 100_000;

/// The part of its memory that a process keeps resident because it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The process may evict any block.
    Nothing,
    /// The process evicts nothing, and is filling its evicted blocks.
    Partly,
    /// All memory of the process is resident, and the process evicts nothing.
    All,
}

/// Sets bits of a word if the process accepts requests. Returns the previous word, or `None`.
fn set(word: &AtomicU64, bits: u64) -> Option<u64> {
    let heard = |seen: u64| (seen & HEARS != 0).then_some(seen | bits);
    word.fetch_update(AcqRel, Acquire, heard).ok()
}

impl Tree {
    fn peers_of(&self, process: u64) -> Option<&AtomicU64> {
        let nth = self.in_use().find(|nth| self.slot(*nth).process.load(Acquire) == process)?;
        Some(self.slot(nth).peers)
    }

    /// Asks a process to fill no block in place. Returns whether the process has agreed, or `None`
    /// if no process of the tree with this number accepts requests.
    pub fn ask_peer(&self, process: u64) -> Option<bool> {
        set(self.peers_of(process)?, ASKED).map(|before| before & AGREED != 0)
    }

    /// Returns how much memory a process keeps resident, or `None` if the process accepts no
    /// requests, is outside the tree, or is confined.
    pub fn kept(&self, process: u64) -> Option<Kept> {
        let seen = self.peers_of(process)?.load(Acquire);
        (seen & (HEARS | CONFINED) == HEARS).then_some(match seen & (KEEPS | WHOLE) {
            0 => Kept::Nothing,
            KEEPS => Kept::Partly,
            _ => Kept::All,
        })
    }

    /// Ensures that [`kept`](Self::kept) does not return [`Kept::All`] until the process has acted
    /// on the next [`Asked::Stay`].
    pub fn begin_keeping(&self, process: u64) {
        self.peers_of(process).inspect(|word| _ = word.fetch_and(!WHOLE, AcqRel));
    }

    /// Sends a request to a thread of a process by a signal, if the process accepts requests and no
    /// other process is sending a request.
    pub fn ask(&self, process: u64, thread: u64, asked: Asked) {
        let free = |seen: u64| (seen & (HEARS | SENDING) == HEARS).then_some(seen | SENDING);
        if let Some(word) = self.peers_of(process)
            && word.fetch_update(AcqRel, Acquire, free).is_ok()
        {
            ask(process as i32, thread as i32, asked);
            word.fetch_and(!SENDING, AcqRel);
        }
    }
}

impl Member {
    /// Publishes that this process has a handler for signals of its tree.
    pub(crate) fn hear(&self) {
        self.own_slot().inspect(|slot| _ = slot.peers.fetch_or(HEARS, AcqRel));
    }

    /// Publishes that this process accepts no more requests. When the function returns, a signal
    /// that was being sent has arrived.
    pub(crate) fn deafen(&self) {
        let Some(slot) = self.own_slot() else { return };
        slot.peers.fetch_and(!HEARS, AcqRel);
        for _ in 0..LOOKS {
            if slot.peers.load(Acquire) & SENDING == 0 {
                break;
            }
            std::thread::yield_now();
        }
        // A signal that was sent arrives at the latest at the end of this system call.
        std::thread::yield_now();
    }

    /// Publishes that this process agrees to a request of [`ask_peer`](Tree::ask_peer). The caller
    /// guarantees that no thread of this process is filling a block.
    pub(crate) fn agree(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, AGREED));
    }

    /// Publishes that this process evicts nothing, because a debugger reads its memory.
    pub(crate) fn keep_all(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, KEEPS));
    }

    /// Publishes that all memory of this process is resident and will not be evicted.
    pub(crate) fn note_whole(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, WHOLE));
    }

    /// Publishes that this process may evict again.
    pub(crate) fn keep_no_more(&self) {
        self.own_slot().inspect(|slot| _ = slot.peers.fetch_and(!(KEEPS | WHOLE), AcqRel));
    }

    /// Publishes whether this process is confined. Debuggers send no requests to a confined
    /// process.
    pub(crate) fn set_confined(&self, is_confined: bool) {
        self.own_slot().inspect(|slot| match is_confined {
            true => _ = slot.peers.fetch_or(CONFINED, AcqRel),
            false => _ = slot.peers.fetch_and(!CONFINED, AcqRel),
        });
    }

    /// Returns whether this process evicts nothing.
    pub(crate) fn keeps_all(&self) -> bool {
        self.has(KEEPS)
    }

    /// Returns whether all memory of this process is resident, and no debugger has sent a request
    /// since that was published.
    pub(crate) fn is_whole(&self) -> bool {
        self.has(WHOLE)
    }

    /// Returns whether another process reads this process's memory, or is about to read it.
    pub(crate) fn has_peers(&self) -> bool {
        self.has(ASKED)
    }

    fn has(&self, bit: u64) -> bool {
        self.slot().is_some_and(|slot| slot.peers.load(Acquire) & bit != 0)
    }
}
