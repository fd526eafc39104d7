//! The signals by which a process asks another one for room, for memory that is absent there, or to
//! keep its memory resident.
//!
//! A thread says that it waits (`Member::waits`) and is sent SIGBUS with a word of ours. The owner
//! of that signal's handler gives room then, if the thread is in code that may; the call goes on.
//!
//! It is not SIGSYS: the kernel has one place for each of these signals, so a SIGSYS on its way
//! would take the place of a dispatched call's, which would be lost. A touch comes again.
//!
//! # Safety
//! The structure is the kernel's `siginfo_t` of a signal that a process has queued: the sender's
//! number and user, then a word.
#![allow(unsafe_code)]

/// The word of a signal that asks for room.
const ROOM: u64 = u64::from_le_bytes(*b"uzrmpoke");
/// The error numbers of signals that ask for something else. The word is the address of the memory,
/// names a debugger, or is 0.
const MEMORY: i32 = 0x757a;
const STAY: i32 = 0x757b;
const LOOK: i32 = 0x757c;

/// What a signal of ours asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Room, for other processes.
    Room,
    /// Memory at this address, which another process is about to read or write.
    Memory(usize),
    /// All memory, which stays resident for the debugger that the caller's word names.
    Stay(u64),
    /// A look at whether a debugger that memory stayed resident for has left.
    Look,
}

/// `siginfo_t`, of a signal that was queued.
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

/// Asks a thread of a process.
pub(crate) fn ask(process: i32, thread: i32, asked: Asked) {
    let (errno, word) = match asked {
        Asked::Room => (0, ROOM),
        Asked::Memory(address) => (MEMORY, address as u64),
        Asked::Stay(word) => (STAY, word),
        Asked::Look => (LOOK, 0),
    };
    send(process, thread, errno, word);
}

/// Sends a signal. A confined process sends none, and a process of another user gets none.
fn send(process: i32, thread: i32, errno: i32, word: u64) {
    if page::is_confined() {
        return;
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let info = Queued {
        signal: libc::SIGBUS,
        errno,
        code: libc::SI_QUEUE,
        padding: 0,
        process: own,
        user: rustix::process::getuid().as_raw(),
        word,
        rest: [0; 12],
    };
    // SAFETY: the system reads the structure alone. `errno` may be about to be read by the program
    // that a fault has interrupted: it is kept.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, libc::SIGBUS, &raw const info);
        *errno = before;
    }
}

/// Returns what a signal that was sent asks for, if it is one of ours.
pub fn asked(info: &libc::siginfo_t) -> Option<Asked> {
    // SAFETY: as large, and all numbers.
    let queued = unsafe { &*(&raw const *info).cast::<Queued>() };
    let is_queued = queued.signal == libc::SIGBUS && queued.code == libc::SI_QUEUE;
    match (is_queued, queued.errno, queued.word) {
        (true, MEMORY, address) => Some(Asked::Memory(address as usize)),
        (true, STAY, word) => Some(Asked::Stay(word)),
        (true, LOOK, _) => Some(Asked::Look),
        (true, _, ROOM) => Some(Asked::Room),
        _ => None,
    }
}
