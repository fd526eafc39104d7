//! The signals by which a process asks another process to make room, to fill evicted memory, or to
//! keep its memory resident.
//!
//! A thread announces that it waits (`GroupMember::waits`). From then on, other processes send
//! SIGBUS to the thread if necessary, with a value that encodes a request. The user of this crate
//! installs the handler of SIGBUS. The handler makes room if the interrupted code permits this, and
//! then the interrupted call continues.
//!
//! SIGSYS is not used. The kernel keeps only one pending SIGBUS and one pending SIGSYS. If a
//! request were a SIGSYS, it could replace the SIGSYS of a dispatched call, and the call would be
//! lost. If a request replaces the SIGBUS of a fault, the instruction faults again.
//!
//! # Safety
//! `Queued` has the layout of `siginfo_t` for a queued signal: the sender's process ID and user ID,
//! then an 8-byte value.
#![allow(unsafe_code)]

use crate::policy::SIGNAL_LOOKS;
use crate::process::own_number;

/// The value of the signal that requests room.
const ROOM: u64 = u64::from_le_bytes(*b"uzrmpoke");
/// The error numbers that identify requests other than `ROOM`. The signal's value is an address for
/// `MEMORY`, identifies a debugger for `STAY`, and is 0 for `LOOK`.
const MEMORY: i32 = 0x757a;
const STAY: i32 = 0x757b;
const LOOK: i32 = 0x757c;

/// A request that a signal carries to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Evict blocks to make room for other processes.
    Room,
    /// Fill the memory at this address. Another process is about to read or write the memory.
    Memory(usize),
    /// Make all memory resident, and keep it resident for the debugger that this value identifies.
    Stay(u64),
    /// Check whether the debugger for which this process keeps its memory resident has left.
    Look,
}

impl Request {
    /// Returns the request that a signal encodes, or `None` if the signal is not a request.
    pub fn of(info: &libc::siginfo_t) -> Option<Self> {
        // SAFETY: the types have equal sizes, and any bytes are valid numbers.
        let queued = unsafe { &*(&raw const *info).cast::<Queued>() };
        let is_queued = queued.signal == libc::SIGBUS && queued.code == libc::SI_QUEUE;
        match (is_queued, queued.errno, queued.word) {
            (true, MEMORY, address) => Some(Request::Memory(address as usize)),
            (true, STAY, word) => Some(Request::Stay(word)),
            (true, LOOK, _) => Some(Request::Look),
            (true, _, ROOM) => Some(Request::Room),
            _ => None,
        }
    }

    /// Sends the request to a thread of a process. Sends nothing if this process is confined by a
    /// seccomp filter. The kernel refuses the signal if the other process belongs to another user.
    pub(crate) fn send(self, process: i32, thread: i32) {
        if page::is_confined() {
            return;
        }
        let (errno, word) = match self {
            Request::Room => (0, ROOM),
            Request::Memory(address) => (MEMORY, address as u64),
            Request::Stay(word) => (STAY, word),
            Request::Look => (LOOK, 0),
        };
        let info = Queued {
            signal: libc::SIGBUS,
            errno,
            code: libc::SI_QUEUE,
            padding: 0,
            process: own_number() as i32,
            user: rustix::process::getuid().as_raw(),
            word,
            rest: [0; 12],
        };
        let (number, signal) = (libc::SYS_rt_tgsigqueueinfo, libc::SIGBUS);
        // SAFETY: the kernel only reads the structure. `errno` is preserved, because a fault may
        // have interrupted code of the program that is about to read `errno`.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::syscall(number, process, thread, signal, &raw const info);
            *errno = before;
        }
    }
}

/// The layout of `siginfo_t` for a queued signal.
#[repr(C)]
struct Queued {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    process: i32,
    user: u32,
    word: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());

/// Waits until `is_sent` returns true, that is, until another process has sent its signal. Returns
/// earlier if that process seems to have been killed.
pub(crate) fn await_sent(is_sent: impl Fn() -> bool) {
    for _ in 0..SIGNAL_LOOKS {
        if is_sent() {
            break;
        }
        std::thread::yield_now();
    }
}
