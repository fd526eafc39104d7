//! Processes that read and write each other's memory by system calls.
//!
//! ```text
//!   word of a slot: 0 --hears--> HEARS --asked--> HEARS | ASKED --agrees--> HEARS | ASKED | AGREED
//!                   ^                     a signal is being sent: SENDING          |
//!                   '---- `deafen`, before the process executes a program <--------'
//! ```
//! A process whose memory another one reads fills no block in place, because the reader would see
//! half of it (zm-L17). The reader asks for this in the other process's slot, and waits until the
//! process has agreed. Each block that it was filling is then complete.
//!
//! A process that a debugger of the tree looks at keeps all of its memory resident (zm-L19):
//!
//! ```text
//!   HEARS --asked: brings its memory back, evicts nothing--> KEEPS --all is back--> KEEPS | WHOLE
//!         ^                                                    ^--- the next debugger asks ---|
//!         '---- the debugger has left ----- KEEPS, WHOLE <------------------------------------'
//! ```
//!
//! A signal would kill a program that has no handler for it yet. So a process that is about to
//! execute a program stops accepting requests (clears HEARS), and waits until a signal that is
//! being sent has arrived.

use super::{Member, Tree};
use crate::poke::{Asked, ask};
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

const HEARS: u64 = 1;
const ASKED: u64 = 2;
const AGREED: u64 = 4;
const SENDING: u64 = 8;
pub(super) const KEEPS: u64 = 16;
const WHOLE: u64 = 32;
/// A filter of system calls forbids the calls that keep memory resident.
const CONFINED: u64 = 64;
/// After this number of loads in vain, the sender counts as killed.
const LOOKS: usize = 100_000;

/// How far a process that was asked to keep its memory resident has done so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It may evict.
    Nothing,
    /// It evicts nothing, and is bringing blocks back.
    Partly,
    /// All of its memory is resident, and stays.
    All,
}

/// Sets bits of a word if the process accepts requests. Returns the word before.
fn set(word: &AtomicU64, bits: u64) -> Option<u64> {
    let heard = |seen: u64| (seen & HEARS != 0).then_some(seen | bits);
    word.fetch_update(AcqRel, Acquire, heard).ok()
}

impl Tree {
    fn peers_of(&self, process: u64) -> Option<&AtomicU64> {
        let nth = self.in_use().find(|nth| self.slot(*nth).process.load(Acquire) == process)?;
        Some(self.slot(nth).peers)
    }

    /// Asks a process to fill no block in place. Returns whether it has agreed, or `None` if no
    /// process of the tree with this number accepts requests.
    pub fn ask_peer(&self, process: u64) -> Option<bool> {
        set(self.peers_of(process)?, ASKED).map(|before| before & AGREED != 0)
    }

    /// Returns the memory that a process keeps resident, or `None` if it accepts no requests, is
    /// not of the tree, or is confined.
    pub fn kept(&self, process: u64) -> Option<Kept> {
        let seen = self.peers_of(process)?.load(Acquire);
        (seen & (HEARS | CONFINED) == HEARS).then_some(match seen & (KEEPS | WHOLE) {
            0 => Kept::Nothing,
            KEEPS => Kept::Partly,
            _ => Kept::All,
        })
    }

    /// Makes [`kept`](Self::kept) no longer return [`Kept::All`], until the process has acted on
    /// the next [`Asked::Stay`].
    pub fn begin_keeping(&self, process: u64) {
        self.peers_of(process).inspect(|word| _ = word.fetch_and(!WHOLE, AcqRel));
    }

    /// Asks a thread of a process by a signal, if the process accepts requests and no other process
    /// is asking it.
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

    /// Publishes that this process accepts no more requests. A signal that was sent has arrived
    /// when this returns.
    pub(crate) fn deafen(&self) {
        let Some(slot) = self.own_slot() else { return };
        slot.peers.fetch_and(!HEARS, AcqRel);
        for _ in 0..LOOKS {
            if slot.peers.load(Acquire) & SENDING == 0 {
                break;
            }
            std::thread::yield_now();
        }
        // The signal arrives at the end of a system call.
        std::thread::yield_now();
    }

    /// Agrees to a request of [`ask_peer`](Tree::ask_peer). No thread of this process fills a
    /// block.
    pub(crate) fn agree(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, AGREED));
    }

    /// Publishes that this process evicts nothing, because a debugger looks at its memory.
    pub(crate) fn keep_all(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, KEEPS));
    }

    /// Publishes that all memory of this process is resident, and stays.
    pub(crate) fn note_whole(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, WHOLE));
    }

    /// Publishes that this process may evict again.
    pub(crate) fn keep_no_more(&self) {
        self.own_slot().inspect(|slot| _ = slot.peers.fetch_and(!(KEEPS | WHOLE), AcqRel));
    }

    /// Sets whether this process is confined. Debuggers ask a confined process for nothing.
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

    /// Returns whether all memory of this process is resident, and no debugger has asked since.
    pub(crate) fn is_whole(&self) -> bool {
        self.has(WHOLE)
    }

    /// Returns whether another process reads this one's memory, or is about to.
    pub(crate) fn has_peers(&self) -> bool {
        self.has(ASKED)
    }

    fn has(&self, bit: u64) -> bool {
        self.slot().is_some_and(|slot| slot.peers.load(Acquire) & bit != 0)
    }
}
