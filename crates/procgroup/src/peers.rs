//! Processes that read and write each other's memory by system calls.
//!
//! ```text
//!   word of a slot: 0 --hears--> HEARS --asked--> HEARS | ASKED --agrees--> HEARS | ASKED | AGREED
//!                   ^                     a signal is being sent: SENDING          |
//!                   '---- `deafen`, before the process executes a program <--------'
//! ```
//! While a reader accesses the memory of another process, this other process (the owner) fills no
//! block in place, because the reader could see a partly filled block (zm-L17). The reader sets
//! ASKED in the owner's slot, and waits until the owner has agreed. All blocks that the owner was
//! filling are then complete.
//!
//! While a debugger of the group reads the memory of a process, the process keeps all of its memory
//! resident (zm-L19):
//!
//! ```text
//!   HEARS --asked: fills absent blocks and evicts nothing--> KEEPS --all is back--> KEEPS | WHOLE
//!         ^                                                    ^--- the next debugger asks ---|
//!         '---- the debugger has left ----- KEEPS, WHOLE <------------------------------------'
//! ```
//!
//! Requests are sent as signals, which would kill a program that has no handler yet. So a process
//! clears HEARS before it executes a program, and thereby accepts no more requests. The process
//! then waits until a signal that is being sent has arrived.

use crate::layout::Slot;
use crate::request::{Request, await_sent};
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

pub(crate) const HEARS: u64 = 1;
pub(crate) const ASKED: u64 = 2;
pub(crate) const AGREED: u64 = 4;
const SENDING: u64 = 8;
pub(crate) const KEEPS: u64 = 16;
pub(crate) const WHOLE: u64 = 32;
/// This bit is set if a filter of the process may forbid the system calls by which it keeps memory
/// resident.
pub(crate) const CONFINED: u64 = 64;

/// Which memory a process keeps resident because a debugger asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The process is allowed to evict any block.
    Nothing,
    /// The process evicts nothing, and is filling its evicted blocks.
    Partly,
    /// All memory of the process is resident, and the process evicts nothing.
    All,
}

/// The bits by which a process cooperates with processes that access its memory.
#[derive(Debug)]
pub(crate) struct Peers<'a>(&'a AtomicU64);

impl<'a> Peers<'a> {
    pub(crate) fn of(slot: &Slot<'a>) -> Self {
        Peers(slot.peers)
    }

    pub(crate) fn has(&self, bit: u64) -> bool {
        self.0.load(Acquire) & bit != 0
    }

    /// Sets `bits` if `is_set` is true, else clears them.
    pub(crate) fn set(&self, bits: u64, is_set: bool) {
        let _before = match is_set {
            true => self.0.fetch_or(bits, AcqRel),
            false => self.0.fetch_and(!bits, AcqRel),
        };
    }

    /// Sets `bits` if the process accepts requests. Returns the previous bits, or `None` if the
    /// process accepts no requests.
    pub(crate) fn set_heard(&self, bits: u64) -> Option<u64> {
        let heard = |seen: u64| (seen & HEARS != 0).then_some(seen | bits);
        self.0.fetch_update(AcqRel, Acquire, heard).ok()
    }

    /// See [`ProcessGroup::ask_peer`](crate::ProcessGroup::ask_peer).
    pub(crate) fn ask_to_agree(&self) -> Option<bool> {
        self.set_heard(ASKED).map(|before| before & AGREED != 0)
    }

    /// See [`ProcessGroup::kept`](crate::ProcessGroup::kept).
    pub(crate) fn kept(&self) -> Option<Kept> {
        let seen = self.0.load(Acquire);
        (seen & (HEARS | CONFINED) == HEARS).then_some(match seen & (KEEPS | WHOLE) {
            0 => Kept::Nothing,
            KEEPS => Kept::Partly,
            _ => Kept::All,
        })
    }

    /// Sends a request by a signal to a thread of `process`, the owner of these bits. Does nothing
    /// if the process accepts no requests, or if another process is sending a request.
    pub(crate) fn send(&self, process: u64, thread: u64, request: Request) {
        let free = |seen: u64| (seen & (HEARS | SENDING) == HEARS).then_some(seen | SENDING);
        if self.0.fetch_update(AcqRel, Acquire, free).is_ok() {
            request.send(process as i32, thread as i32);
            self.set(SENDING, false);
        }
    }

    /// Publishes that the process accepts no more requests. If another process was sending a
    /// signal, the signal has arrived when the function returns.
    pub(crate) fn deafen(&self) {
        self.set(HEARS, false);
        await_sent(|| !self.has(SENDING));
        // A signal that was already sent is delivered at the latest when this system call returns.
        std::thread::yield_now();
    }
}
