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
//! A process whose memory a debugger of the group reads keeps all of its memory resident (zm-L19):
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

use crate::group::ProcessGroup;
use crate::member::GroupMember;
use crate::request::Request;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use zmem::Arena;

const HEARS: u64 = 1;
pub(crate) const ASKED: u64 = 2;
const AGREED: u64 = 4;
const SENDING: u64 = 8;
pub(crate) const KEEPS: u64 = 16;
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

impl ProcessGroup {
    fn peers_of(&self, process: u64) -> Option<&AtomicU64> {
        let nth = self.in_use().find(|nth| self.slot(*nth).process.load(Acquire) == process)?;
        Some(self.slot(nth).peers)
    }

    /// Asks a process to fill no block in place. Returns whether the process has agreed, or `None`
    /// if no process of the group with this number accepts requests.
    pub fn ask_peer(&self, process: u64) -> Option<bool> {
        set(self.peers_of(process)?, ASKED).map(|before| before & AGREED != 0)
    }

    /// Returns how much memory a process keeps resident, or `None` if the process accepts no
    /// requests, is outside the group, or is confined.
    pub fn kept(&self, process: u64) -> Option<Kept> {
        let seen = self.peers_of(process)?.load(Acquire);
        (seen & (HEARS | CONFINED) == HEARS).then_some(match seen & (KEEPS | WHOLE) {
            0 => Kept::Nothing,
            KEEPS => Kept::Partly,
            _ => Kept::All,
        })
    }

    /// Ensures that [`kept`](Self::kept) does not return [`Kept::All`] until the process has acted
    /// on the next [`Request::Stay`].
    pub fn begin_keeping(&self, process: u64) {
        self.peers_of(process).inspect(|word| _ = word.fetch_and(!WHOLE, AcqRel));
    }

    /// Sends a request to a thread of a process by a signal, if the process accepts requests and no
    /// other process is sending a request.
    pub fn ask(&self, process: u64, thread: u64, request: Request) {
        let free = |seen: u64| (seen & (HEARS | SENDING) == HEARS).then_some(seen | SENDING);
        if let Some(word) = self.peers_of(process)
            && word.fetch_update(AcqRel, Acquire, free).is_ok()
        {
            request.send(process as i32, thread as i32);
            word.fetch_and(!SENDING, AcqRel);
        }
    }
}

impl GroupMember {
    /// Publishes that this process has a handler for signals of its group.
    pub fn hear(&self) {
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

    /// Publishes that this process agrees to a request of [`ask_peer`](ProcessGroup::ask_peer).
    /// The caller guarantees that no thread of this process is filling a block in place.
    pub fn agree(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, AGREED));
    }

    /// Stops evictions until [`evict_again`](Self::evict_again), because a debugger reads the
    /// memory of this process. When this returns, no other thread evicts. The calling thread holds
    /// no lock of `arena`, the arena of this process.
    pub fn keep_all(&self, arena: &Arena) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, KEEPS));
        arena.await_evictions();
    }

    /// Publishes that all memory of this process is resident and will not be evicted.
    pub fn note_whole(&self) {
        self.own_slot().inspect(|slot| _ = set(slot.peers, WHOLE));
    }

    /// Permits evictions again after [`keep_all`](Self::keep_all).
    pub fn evict_again(&self, arena: &Arena) {
        self.own_slot().inspect(|slot| _ = slot.peers.fetch_and(!(KEEPS | WHOLE), AcqRel));
        arena.retry_evictions();
    }

    /// Publishes whether this process is confined. Debuggers send no requests to a confined
    /// process.
    pub fn set_confined(&self, is_confined: bool) {
        self.own_slot().inspect(|slot| match is_confined {
            true => _ = slot.peers.fetch_or(CONFINED, AcqRel),
            false => _ = slot.peers.fetch_and(!CONFINED, AcqRel),
        });
    }

    /// Returns whether all memory of this process is resident, and no debugger has sent a request
    /// since that was published.
    pub fn is_whole(&self) -> bool {
        self.has(WHOLE)
    }

    /// Returns whether a bit of this process's word is set.
    pub(crate) fn has(&self, bit: u64) -> bool {
        self.slot().is_some_and(|slot| slot.peers.load(Acquire) & bit != 0)
    }
}
