//! The helper process, which traces another process during that process's `execve`.
//!
//! ```text
//!   state:   STARTED -> ASKED -> READY      the process executes the program
//!                       ^ |'---> REFUSED    the helper ends; the process unmaps the `Room`
//!                       | v
//!                      DENIED               Yama asks the process to name its tracer
//! ```
//! in-1: the helper shares the memory of the process that it traces. The helper allocates nothing,
//! because `execve` can end another thread while that thread holds a lock of the heap. in-2: the
//! helper ends before the program's first instruction, or together with the process. The helper
//! unmaps its own `Room`, except after a refusal or after `Helper::drop` has killed the helper.
//!
//! # Safety
//! `Control` lies in the helper's `Room`. The plan exists until the helper has ended.
#![allow(unsafe_code)]

use crate::host_file::HostFiles;
use crate::plan::Plan;
use crate::policy::{CHECK_AFTER, PROCESSORS, READER_WITHIN};
use crate::report;
use crate::steps::{Failure, bring_in, find_call};
use crate::system::{CLOSE_ALL, Errno, MASK_BYTES, system, wait};
use crate::tracee::{Stop, Tracee, trace};
use dispatch::Room;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};

pub(crate) const STARTED: u32 = 0;
pub(crate) const ASKED: u32 = 1;
pub(crate) const READY: u32 = 2;
pub(crate) const REFUSED: u32 = 3;
pub(crate) const DENIED: u32 = 4;

/// The state that the helper and the process share.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) room: Room,
    pub(crate) plan: *const Plan,
    /// The IDs of the thread that executes the program, and of the thread's process.
    pub(crate) thread: i32,
    pub(crate) parent: i32,
    /// Whether the helper reports on standard error that no host could be injected into the
    /// process.
    pub(crate) is_heard: bool,
    pub(crate) vdso: usize,
    /// The processor on which the thread of the process runs.
    pub(crate) processor: u32,
    /// The helper reads and writes this word to test whether it can access the memory of the
    /// process.
    pub(crate) tried: AtomicU64,
    /// The helper's process ID.
    pub(crate) number: AtomicI32,
    pub(crate) state: AtomicU32,
    /// The helper's process ID while the helper runs, else 0.
    pub(crate) running: AtomicU32,
}

impl Control {
    fn word(&self) -> usize {
        self.state.as_ptr().addr()
    }

    /// Changes the state, and wakes the process, which waits for a change.
    pub(crate) fn set(&self, state: u32) {
        self.state.store(state, SeqCst);
        self.wake();
    }

    /// Wakes the process, which waits for a change of the state.
    pub(crate) fn wake(&self) {
        let wake = libc::FUTEX_WAKE as usize;
        let _woken = system(libc::SYS_futex, [self.word(), wake, 1, 0, 0, 0]);
    }

    /// Waits while the state equals `state`, for at most `CHECK_AFTER`.
    pub(crate) fn wait_while(&self, state: u32) {
        let time = [0, CHECK_AFTER];
        let wait = libc::FUTEX_WAIT as usize;
        let args = [self.word(), wait, state as usize, time.as_ptr().addr(), 0, 0];
        let _woken = system(libc::SYS_futex, args);
    }

    /// Traces the thread until its `execve` has succeeded, and then makes the thread enter the
    /// host. Returns whether the helper must unmap its `Room` itself.
    fn attend(&self) -> bool {
        // SAFETY: the plan exists until the helper has ended (see "Safety" in this file's header).
        let plan = unsafe { &*self.plan };
        let Ok(files) = self.prepare(plan) else {
            self.set(REFUSED);
            return false;
        };
        self.set(READY);
        while let Ok((process, status)) = wait(-1) {
            let stop = Stop::of(status);
            match stop {
                Stop::Executed => {
                    self.enter(process, &files, plan);
                    break;
                }
                Stop::Ended => break,
                Stop::Call | Stop::Group(_) | Stop::Signal(_) => {}
            }
            let (request, data) = stop.passed_on(libc::PTRACE_CONT);
            // The call fails only if SIGKILL has ended the process.
            let _gone = trace(request, process, 0, data);
        }
        true
    }

    /// Begins to trace the thread, and tests the operations that the helper needs after `execve`.
    fn prepare(&self, plan: &Plan) -> Result<HostFiles, Errno> {
        // Gives the helper its own table of descriptors. If the helper shared the table of the
        // process, the helper's end would flush the open files, and other threads would wait for
        // the flush.
        system(libc::SYS_close_range, CLOSE_ALL)?;
        self.move_to_processor();
        let files = HostFiles::read(&plan.host)?;
        self.wait_as_long_as(STARTED)?;
        let seize = || {
            trace(libc::PTRACE_SEIZE, self.thread, 0, libc::PTRACE_O_TRACEEXEC as usize).map(drop)
        };
        seize().or_else(|errno| {
            if errno == libc::EPERM {
                self.set(DENIED);
                self.wait_as_long_as(DENIED)?;
            }
            seize()
        })?;
        let _set = system(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, 0, 0, 0, 0, 0]);
        // Tests every operation that the helper needs after `execve`.
        let (tracee, mut copy) = (Tracee::new(self.thread), [0]);
        let tried = self.tried.as_ptr().addr();
        tracee.read(tried, &mut copy)?;
        tracee.write(tried, &copy[0].to_ne_bytes())?;
        find_call(&tracee, self.vdso)?;
        Ok(files)
    }

    /// Moves the helper to the processor on which the thread runs. Each stop of the thread wakes
    /// the helper, and a wakeup on another processor takes longer.
    fn move_to_processor(&self) {
        let mut set = [0_u64; PROCESSORS / 64];
        if let Some(word) = set.get_mut(self.processor as usize / 64) {
            *word = 1 << (self.processor % 64);
            let args = [0, size_of_val(&set), set.as_ptr().addr(), 0, 0, 0];
            let _moved = system(libc::SYS_sched_setaffinity, args);
        }
    }

    /// Waits until the state differs from `state`. Fails if the thread has ended.
    fn wait_as_long_as(&self, state: u32) -> Result<(), Errno> {
        while self.state.load(SeqCst) == state {
            let (parent, thread) = (self.parent as usize, self.thread as usize);
            system(libc::SYS_tgkill, [parent, thread, 0, 0, 0, 0])?;
            self.wait_while(state);
        }
        Ok(())
    }

    /// Makes the process enter the host, and detaches from the process.
    fn enter(&self, process: i32, files: &HostFiles, plan: &Plan) {
        let mut tracee = Tracee::new(process);
        let number = self.number.load(SeqCst) as usize;
        let entered = bring_in(&mut tracee, files, plan, number);
        let failure = entered.err().filter(|_| self.is_heard);
        let failure = failure.filter(|failure| *failure != Failure::System(libc::ESRCH));
        // The report should precede the program's output. The helper writes the report before the
        // detach if standard error accepts the report at once. If standard error is a full pipe,
        // the helper first detaches, because the process's parent can't wait for the process until
        // then. The helper then waits for the pipe only for a limited time, because a running
        // helper keeps the memory of the previous program mapped.
        let is_first = failure.is_some_and(|_| report::is_possible(0));
        failure.filter(|_| is_first).inspect(|failure| report::write(process, *failure));
        let _gone = tracee.detach();
        let later = failure.filter(|_| !is_first && report::is_possible(READER_WITHIN));
        later.inspect(|failure| report::write(process, *failure));
    }
}

/// Runs the helper process.
///
/// # Safety
/// `control` points to the `Control` in the helper's `Room`.
pub(crate) unsafe extern "C" fn run(control: *mut c_void) -> ! {
    let all = u64::MAX;
    let block = [libc::SIG_SETMASK as usize, (&raw const all).addr(), 0, MASK_BYTES, 0, 0];
    let _blocked = system(libc::SYS_rt_sigprocmask, block);
    // SAFETY: the caller passes the `Control` that lies in the helper's `Room`.
    let control = unsafe { &*control.cast::<Control>() };
    let room = control.room;
    // Until the helper traces the thread that started the helper, the kernel kills the helper when
    // that thread ends.
    let on_end = libc::SIGKILL as usize;
    let _set = system(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, on_end, 0, 0, 0, 0]);
    // The helper moves to its own process group, so that signals to the group of the process do not
    // stop the helper.
    let _own_group = system(libc::SYS_setpgid, [0; 6]);
    if control.attend() {
        // Without this call, the kernel would clear a word in the unmapped `Room` when the helper
        // ends.
        let _forgotten = system(libc::SYS_set_tid_address, [0; 6]);
        // SAFETY: the helper runs in the `Room`, and the process no longer reads the `Room`.
        unsafe { room.leave() }
    }
    loop {
        let _ended = system(libc::SYS_exit, [0; 6]);
    }
}
