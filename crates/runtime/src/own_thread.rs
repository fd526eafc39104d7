//! The compressor thread, which stores blocks that evicting threads have queued. The C library and
//! the program do not know this thread. A system call of the runtime creates the thread, which runs
//! in a `Room` with all signals blocked.
//!
//! pl-12: the thread calls only functions of the C library that work with zeroed thread-local
//! storage. As on any thread, only the thread-local variables of the host itself are initialised,
//! from the host's file (pl-10). The thread's system calls are not dispatched, and the thread
//! accesses no memory of the program. pl-13: a process has at most one compressor thread. The next
//! thread begins only after the kernel has reported that the last thread no longer uses the `Room`.
//!
//! # Safety
//! The `Room` stays mapped. The thread that changes `is_there` from 0 owns the `Room` until the
//! kernel sets `is_there` to 0 at the new thread's end.
#![allow(unsafe_code)]

use crate::policy::END_LOOKS;
use dispatch::{Room, system};
use libc::{CLONE_CHILD_CLEARTID, CLONE_FILES, CLONE_FS, CLONE_PARENT_SETTID, CLONE_SETTLS};
use libc::{CLONE_SIGHAND, CLONE_SYSVSEM, CLONE_THREAD, CLONE_VM};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use zmem::StartThread;

/// The value of `is_there` while the thread is being created.
const TO_COME: u32 = u32::MAX;
/// The flags with which the thread is created.
pub(crate) const FLAGS: c_int = CLONE_VM
    | CLONE_FS
    | CLONE_FILES
    | CLONE_SIGHAND
    | CLONE_THREAD
    | CLONE_SYSVSEM
    | CLONE_SETTLS
    | CLONE_PARENT_SETTID
    | CLONE_CHILD_CLEARTID;

/// The function that the thread runs. The function is boxed twice, so that its address fits into
/// one word.
type Run = Box<dyn FnOnce() + Send>;

pub(crate) static OWN_THREAD: OwnThread =
    OwnThread { room: OnceLock::new(), is_there: AtomicU32::new(0), last: AtomicU32::new(0) };

/// The compressor thread, and the `Room` in which it runs.
#[derive(Debug)]
pub(crate) struct OwnThread {
    room: OnceLock<Room>,
    /// The ID of the compressor thread until the kernel has released the thread, then 0.
    is_there: AtomicU32,
    /// The ID of the compressor thread that was created last.
    last: AtomicU32,
}

impl OwnThread {
    /// Returns whether a compressor thread is useful. With one processor, the thread would only
    /// alternate with the program.
    pub(crate) fn is_useful() -> bool {
        zmem::processors() > 1
    }

    /// Resets the state in a child of a fork, which has no compressor thread.
    pub(crate) fn begin_child(&self) {
        self.is_there.store(0, SeqCst);
        self.last.store(0, SeqCst);
    }
}

/// Runs the function for which the thread was started, and ends the thread.
///
/// # Safety
/// `run` is the address of a boxed [`Run`] that no other code uses.
unsafe extern "C" fn run_thread(run: *mut c_void) -> ! {
    // SAFETY: the caller guarantees that `run` is the address of a box that no other code uses.
    let run = unsafe { Box::from_raw(run.cast::<Run>()) };
    run();
    // SAFETY: the thread ends. Its stack and storage lie in memory that stays mapped.
    unsafe {
        std::arch::asm!(
            "syscall",
            in("rax") libc::SYS_exit,
            in("rdi") 0,
            options(noreturn)
        )
    }
}

impl StartThread for OwnThread {
    fn start(&self, run: Run) -> bool {
        if self.is_there.compare_exchange(0, TO_COME, SeqCst, SeqCst).is_err() {
            return false;
        }
        let room = self.room.get().copied().or_else(|| {
            let room = Room::map()?;
            Some(*self.room.get_or_init(|| room))
        });
        let Some(room) = room else {
            self.is_there.store(0, SeqCst);
            return false;
        };
        let run = Box::into_raw(Box::new(run));
        // SAFETY: this thread owns the `Room` and has all signals blocked. The argument is the
        // address of a box.
        let made = unsafe { room.start(FLAGS, &raw const self.is_there, run_thread, run.cast()) };
        if made > 0 {
            self.last.store(made as u32, SeqCst);
        } else {
            // SAFETY: no thread was created, so no other code uses the box.
            drop(unsafe { Box::from_raw(run) });
            self.is_there.store(0, SeqCst);
        }
        made > 0
    }

    fn last(&self) -> u32 {
        self.last.load(SeqCst)
    }

    fn has_ended(&self, last: u32, time: Duration) -> bool {
        let seen = self.is_there.load(SeqCst);
        if seen == last && last != 0 || seen == TO_COME {
            let time = [time.as_secs(), u64::from(time.subsec_nanos())];
            // The kernel wakes only one of the waiting threads, so the others check periodically.
            let word = (&raw const self.is_there).addr();
            let wait = libc::FUTEX_WAIT as usize;
            let _woken =
                system(libc::SYS_futex, [word, wait, seen as usize, time.as_ptr().addr(), 0, 0]);
            return false;
        }
        // The kernel reports that the `Room` is free before it has released all resources that the
        // thread shared.
        last == 0 || (0..END_LOOKS).any(|_| !has_thread(last))
    }
}

/// Returns whether this process has a thread with this ID.
fn has_thread(number: u32) -> bool {
    let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
    let is_there = system(libc::SYS_tgkill, [process, number as usize, 0, 0, 0, 0]).is_ok();
    if is_there {
        _ = system(libc::SYS_sched_yield, [0; 6]);
    }
    is_there
}
