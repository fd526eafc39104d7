//! The signal by which a process that waits learns that others want room.
//!
//! A thread says that it waits (`Member::waits`) and is sent SIGSYS with a word of ours. Who has
//! the handler of that signal gives room then, if the thread is in code that may; the call goes on.
//!
//! # Safety
//! The structure is the kernel's `siginfo_t` of a signal that a process has queued: the sender's
//! number and user, then a word.
#![allow(unsafe_code)]

/// What the signal says.
const WORD: u64 = u64::from_le_bytes(*b"uzrmpoke");

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

/// Sends the signal. A process of another user can't be sent one.
pub(crate) fn poke(process: i32, thread: i32) {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let info = Queued {
        signal: libc::SIGSYS,
        errno: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        process: own,
        user: rustix::process::getuid().as_raw(),
        word: WORD,
        rest: [0; 12],
    };
    // SAFETY: the system reads the structure alone. `errno` may be about to be read by the program
    // that a fault has interrupted: it is kept.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, libc::SIGSYS, &raw const info);
        *errno = before;
    }
}

/// Returns whether a signal that was sent is this one.
pub fn is_poke(info: &libc::siginfo_t) -> bool {
    // SAFETY: as large, and all numbers.
    let queued = unsafe { &*(&raw const *info).cast::<Queued>() };
    queued.signal == libc::SIGSYS && queued.code == libc::SI_QUEUE && queued.word == WORD
}
