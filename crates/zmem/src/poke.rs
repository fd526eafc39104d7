//! The signals by which a process asks another one for room, or for memory that is absent there.
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
/// The error number of a signal that asks for memory: its word is the address.
const MEMORY: i32 = 0x757a;

/// What a signal of ours asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Room, for other processes.
    Room,
    /// Memory at this address, which another process is about to read or write.
    Memory(usize),
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

/// Asks a process that waits for room. A process of another user can't be asked.
pub(crate) fn poke(process: i32, thread: i32) {
    send(process, thread, 0, ROOM);
}

/// Asks a process for its memory at an address.
pub(crate) fn ask_for(process: i32, address: usize) {
    send(process, process, MEMORY, address as u64);
}

/// Sends a signal. A confined process sends none.
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
        (true, _, ROOM) => Some(Asked::Room),
        _ => None,
    }
}
