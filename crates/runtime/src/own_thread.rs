//! The thread that stores what the program's threads evict. The C library and the program know
//! nothing of it. It is made by a system call of its own, runs in a `Room` of its own, and has all
//! signals blocked.
//!
//! pl-12: the thread calls nothing of the C library's that needs more of its storage than zeros:
//! the host's own storage lies there as in any thread (pl-10), begun with what its file has.
//! System calls of the thread go to the system directly, as it is not armed; it touches nothing of
//! the program's. pl-13: there is one at a time: the next one begins when the system has said that
//! the last one uses the room no more.
//!
//! # Safety
//! The room stays mapped. Whoever sets `is_there` from 0 has it, until the system sets it to 0 as
//! the thread ends.
#![allow(unsafe_code)]

use dispatch::{Room, system};
use libc::{CLONE_CHILD_CLEARTID, CLONE_FILES, CLONE_FS, CLONE_PARENT_SETTID, CLONE_SETTLS};
use libc::{CLONE_SIGHAND, CLONE_SYSVSEM, CLONE_THREAD, CLONE_VM};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use zmem::StartThread;

/// Looks in vain after which a thread that ends is waited for no more.
const END_LOOKS: usize = 10_000;
/// The number of the thread's that is to come.
const TO_COME: u32 = u32::MAX;
const FLAGS: c_int = CLONE_VM
    | CLONE_FS
    | CLONE_FILES
    | CLONE_SIGHAND
    | CLONE_THREAD
    | CLONE_SYSVSEM
    | CLONE_SETTLS
    | CLONE_PARENT_SETTID
    | CLONE_CHILD_CLEARTID;

/// What the thread runs, boxed twice so that one word names it.
type Run = Box<dyn FnOnce() + Send>;

/// The one thread.
pub(crate) static OWN_THREAD: OwnThread =
    OwnThread { room: OnceLock::new(), is_there: AtomicU32::new(0), last: AtomicU32::new(0) };

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct OwnThread {
    room: OnceLock<Room>,
    /// The number of the thread, until the system has it no more.
    is_there: AtomicU32,
    /// The number of the last one.
    last: AtomicU32,
}

impl OwnThread {
    /// Returns whether threads are to be started: on one processor they would only take turns with
    /// the program.
    pub(crate) fn is_useful() -> bool {
        zmem::processors() > 1
    }

    /// Takes note that this is a child, which has no such thread.
    pub(crate) fn begin_child(&self) {
        self.is_there.store(0, SeqCst);
        self.last.store(0, SeqCst);
    }
}

/// Runs what the thread was started for, and ends it.
///
/// # Safety
/// `run` is the word that names a [`Run`], which nobody else uses.
unsafe extern "C" fn run_thread(run: *mut c_void) -> ! {
    // SAFETY: as the caller says.
    let run = unsafe { Box::from_raw(run.cast::<Run>()) };
    run();
    // SAFETY: the thread ends; what it had lies in memory that stays.
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
        // SAFETY: this thread has the room, and all signals blocked; the argument is a box.
        let made = unsafe { room.start(FLAGS, &raw const self.is_there, run_thread, run.cast()) };
        if made > 0 {
            self.last.store(made as u32, SeqCst);
        } else {
            // SAFETY: no thread was made that would use it.
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
            // The system wakes one of those who wait there; so the others look for themselves.
            let word = (&raw const self.is_there).addr();
            let wait = libc::FUTEX_WAIT as usize;
            let _woken =
                system(libc::SYS_futex, [word, wait, seen as usize, time.as_ptr().addr(), 0, 0]);
            return false;
        }
        // The room is free before the system has let go of all that the thread shared.
        last == 0 || (0..END_LOOKS).any(|_| !has_thread(last))
    }
}

/// Returns whether this process has a thread of that number.
fn has_thread(number: u32) -> bool {
    let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
    let is_there = system(libc::SYS_tgkill, [process, number as usize, 0, 0, 0, 0]).is_ok();
    if is_there {
        _ = system(libc::SYS_sched_yield, [0; 6]);
    }
    is_there
}
