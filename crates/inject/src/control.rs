//! The helper's process, which traces another process while that executes a program.
//!
//! ```text
//!   state:   STARTED -> ASKED -> READY      the process executes the program
//!                          '---> REFUSED    the helper ends; the process unmaps the room
//! ```
//! in-1: the helper shares the memory of the process. It allocates nothing, because `execve` may
//! end another thread that holds a lock of the heap.
//! in-2: the helper ends before the program's first instruction, or with the process. It unmaps its
//! room itself, unless it refused or was dismissed.
//!
//! # Safety
//! The structure lies in the helper's room, and the plan stays until the helper has ended.
#![allow(unsafe_code)]

use crate::host_file::HostFiles;
use crate::plan::Plan;
use crate::steps::{Failure, bring_in};
use crate::system::{Errno, system, wait};
use crate::tracee::{Stop, Tracee, trace};
use dispatch::Room;
use std::ffi::c_void;
use std::io::Write as _;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};

pub(crate) const STARTED: u32 = 0;
pub(crate) const ASKED: u32 = 1;
pub(crate) const READY: u32 = 2;
pub(crate) const REFUSED: u32 = 3;
/// Nanoseconds after which a process checks whether the other one still runs.
const CHECK_AFTER: usize = 100_000_000;
/// Bytes of a mask of signals.
const MASK_BYTES: usize = 8;
/// More than the bytes of a report.
const LINE_BYTES: usize = 256;

/// The state that a helper shares with the process.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) room: Room,
    pub(crate) plan: *const Plan,
    /// The thread that executes a program, and its process.
    pub(crate) thread: i32,
    pub(crate) parent: i32,
    /// Whether standard error gets a line if no host can be entered.
    pub(crate) is_heard: bool,
    /// The helper's number.
    pub(crate) number: AtomicI32,
    pub(crate) state: AtomicU32,
    /// The helper's number while it runs, then 0.
    pub(crate) running: AtomicU32,
}

impl Control {
    fn word(&self) -> usize {
        self.state.as_ptr().addr()
    }

    /// Changes the state, and wakes the process that waits for it.
    pub(crate) fn set(&self, state: u32) {
        self.state.store(state, SeqCst);
        let wake = libc::FUTEX_WAKE as usize;
        let _woken = system(libc::SYS_futex, [self.word(), wake, 1, 0, 0, 0]);
    }

    /// Waits a moment if the state is `state`.
    pub(crate) fn wait_while(&self, state: u32) {
        let time = [0, CHECK_AFTER];
        let wait = libc::FUTEX_WAIT as usize;
        let args = [self.word(), wait, state as usize, time.as_ptr().addr(), 0, 0];
        let _woken = system(libc::SYS_futex, args);
    }

    /// Traces the thread until it has executed the program, and enters the host. Returns whether
    /// the helper unmaps the room.
    fn attend(&self) -> bool {
        // SAFETY: see the head of this file.
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
                Stop::Group(_) | Stop::Signal(_) => {}
            }
            let (request, data) = stop.passed_on(libc::PTRACE_CONT);
            // SIGKILL may have ended the process.
            let _gone = trace(request, process, 0, data);
        }
        true
    }

    /// Begins to trace the thread, and checks that its memory can be read.
    fn prepare(&self, plan: &Plan) -> Result<HostFiles, Errno> {
        let files = HostFiles::read(&plan.host)?;
        while self.state.load(SeqCst) == STARTED {
            let (parent, thread) = (self.parent as usize, self.thread as usize);
            system(libc::SYS_tgkill, [parent, thread, 0, 0, 0, 0])?;
            self.wait_while(STARTED);
        }
        trace(libc::PTRACE_SEIZE, self.thread, 0, libc::PTRACE_O_TRACEEXEC as usize)?;
        let _set = system(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, 0, 0, 0, 0, 0]);
        Tracee::new(self.thread).read(self.word(), &mut [0])?;
        Ok(files)
    }

    /// Enters the host in the process, which is traced no more after that.
    fn enter(&self, process: i32, files: &HostFiles, plan: &Plan) {
        let mut tracee = Tracee::new(process);
        let number = self.number.load(SeqCst) as usize;
        let entered = bring_in(&mut tracee, files, plan, number);
        let _gone = tracee.detach();
        if let Err(Failure::System(errno)) = entered
            && self.is_heard
        {
            report(process, errno);
        }
    }
}

/// Reports that a program runs without a host.
fn report(process: i32, errno: Errno) {
    let mut line = [0; LINE_BYTES];
    let mut rest = &mut line[..];
    let _fits = writeln!(
        rest,
        "uzram run: process {process} runs without a limit: the runtime could not be mapped into \
         its program (error {errno}); give it more address space and descriptors"
    );
    let bytes = LINE_BYTES - rest.len();
    let error = libc::STDERR_FILENO as usize;
    let _gone = system(libc::SYS_write, [error, line.as_ptr().addr(), bytes, 0, 0, 0]);
}

/// Runs the helper.
///
/// # Safety
/// `control` is that of the helper's room.
pub(crate) unsafe extern "C" fn run(control: *mut c_void) -> ! {
    let all = u64::MAX;
    let block = [libc::SIG_SETMASK as usize, (&raw const all).addr(), 0, MASK_BYTES, 0, 0];
    let _blocked = system(libc::SYS_rt_sigprocmask, block);
    // SAFETY: as the caller says.
    let control = unsafe { &*control.cast::<Control>() };
    let room = control.room;
    // The helper ends with the thread that started it, until it traces that.
    let on_end = libc::SIGKILL as usize;
    let _set = system(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, on_end, 0, 0, 0, 0]);
    // A signal to the group of the process does not stop the helper.
    let _own_group = system(libc::SYS_setpgid, [0; 6]);
    if control.attend() {
        // Otherwise the kernel writes to an address of the room after the room was unmapped.
        let _forgotten = system(libc::SYS_set_tid_address, [0; 6]);
        // SAFETY: the helper runs in the room, and the process no longer reads it.
        unsafe { room.leave() }
    }
    loop {
        let _ended = system(libc::SYS_exit, [0; 6]);
    }
}
