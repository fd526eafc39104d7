//! A library to be preloaded: it counts the calls that come, and lets them go on.
//!
//! A process writes to the file that `DISPATCH_COUNTS` names, at its end, or when it executes
//! another program: calls that came by signal, calls by wrappers, those that were given up, threads
//! that began, forks, and threads that ended.
//!
//! With `DISPATCH_BY_CALLS` set, thread pointers are read and set by system calls.
//! With `DISPATCH_MEDDLES` set it answers and changes calls, and brings a page when it is touched.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code)]

use dispatch::{Call, Direct, Hook, Outcome, Step, arm};
use std::cell::Cell;
use std::ffi::CStr;
use std::io::{Cursor, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

static CALLS: AtomicU64 = AtomicU64::new(0);
static DIRECT: AtomicU64 = AtomicU64::new(0);
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
static BEGUN: AtomicU64 = AtomicU64::new(0);
static FORKS: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
static FILE: OnceLock<&'static CStr> = OnceLock::new();

/// What a call has in its note while it is issued.
const NOTED: u64 = 0x6e6f_7465;

static MEDDLES: AtomicBool = AtomicBool::new(false);
/// A page that comes when it is touched, by the program or by the system, and what it answers.
const PAGE: usize = 0x5555_0000_0000;
const ANSWER: isize = 4242;
const PAGE_BYTES: usize = 4096;

/// Maps the page.
fn bring() {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is there yet: else it is refused.
    unsafe { libc::mmap(PAGE as *mut _, PAGE_BYTES, prot, flags, -1, 0) };
}

/// Does with a call what a hook may.
fn meddle(call: &mut Call) -> Step {
    match call.number() as i64 {
        libc::SYS_getppid => Step::Answer(ANSWER),
        libc::SYS_getpgrp => {
            call.set_number(libc::SYS_getpid as usize);
            Step::Issue
        }
        // SAFETY: it only asks.
        libc::SYS_getuid => unsafe { Step::Answer(call.issue() + ANSWER) },
        _ => Step::Issue,
    }
}

thread_local! {
    /// Calls of this thread.
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

/// Writes the line of this process.
fn write_counts(end: &str) {
    let Some(path) = FILE.get() else { return };
    let mut line = [0u8; 200];
    let mut at = Cursor::new(&mut line[..]);
    let counts =
        [&CALLS, &DIRECT, &GIVEN_UP, &BEGUN, &FORKS, &ENDED].map(|count| count.load(Relaxed));
    let [calls, direct, given_up, begun, forks, ended] = counts;
    let _ = writeln!(at, "{calls} {direct} {given_up} {begun} {forks} {ended} {end}");
    let bytes = at.position() as usize;
    // SAFETY: the path ends with a zero, and the line is here.
    unsafe {
        let errno = *libc::__errno_location();
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::syscall(libc::SYS_write, fd, line.as_ptr(), bytes);
            libc::close(fd);
        }
        *libc::__errno_location() = errno;
    }
}

impl Hook for Counting {
    fn call(&self, call: &mut Call) -> Step {
        CALLS.fetch_add(1, Relaxed);
        OF_THREAD.set(OF_THREAD.get() + 1);
        match call.number() as i64 {
            libc::SYS_exit_group => write_counts("exit"),
            libc::SYS_execve | libc::SYS_execveat => write_counts("exec"),
            _ => {}
        }
        assert_eq!(call.note()[7], 0, "a note of another call");
        call.note()[7] = NOTED;
        if MEDDLES.load(Relaxed) { meddle(call) } else { Step::Issue }
    }

    fn returned(&self, call: &mut Call, outcome: Outcome) -> Step {
        assert_eq!(call.note()[7], NOTED, "returned without a call");
        match outcome {
            Outcome::Returned(result)
                if MEDDLES.load(Relaxed)
                    && result == -(libc::EFAULT as isize)
                    && call.args()[1] == PAGE =>
            {
                bring();
                Step::Issue
            }
            Outcome::Returned(result) => Step::Answer(result),
            Outcome::GivenUp => {
                GIVEN_UP.fetch_add(1, Relaxed);
                Step::Answer(0)
            }
        }
    }

    fn direct(&self, _: usize, _: &[usize; 6]) -> Direct {
        DIRECT.fetch_add(1, Relaxed);
        if MEDDLES.load(Relaxed) { Direct::Dispatch } else { Direct::Issue }
    }

    fn fault(&self, _: i32, info: *const libc::siginfo_t, _: *mut libc::ucontext_t) -> bool {
        // SAFETY: the kernel's, of a fault, which has an address.
        let address = unsafe { (*info).si_addr() }.addr();
        let is_ours = MEDDLES.load(Relaxed) && address & !(PAGE_BYTES - 1) == PAGE;
        if is_ours {
            bring();
        }
        is_ours
    }

    fn thread_begins(&self) {
        BEGUN.fetch_add(1, Relaxed);
    }

    fn after_fork_in_child(&self) {
        FORKS.fetch_add(1, Relaxed);
    }

    fn thread_ends(&self) {
        ENDED.fetch_add(1, Relaxed);
    }
}

dispatch::export_storage!();
dispatch::export_wrappers!();

#[used]
// SAFETY: the section holds pointers to functions of no arguments that are needed, which the C
// library calls in turn.
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: the environment is not changed before `main`, and outlives the program's text; one
    // thread runs, and the hook keeps to its rules.
    unsafe {
        let path = libc::getenv(c"DISPATCH_COUNTS".as_ptr());
        if !path.is_null() {
            let _ = FILE.set(CStr::from_ptr(libc::strdup(path)));
        }
        if !libc::getenv(c"DISPATCH_BY_CALLS".as_ptr()).is_null() {
            dispatch::use_calls_for_pointers();
        }
        MEDDLES.store(!libc::getenv(c"DISPATCH_MEDDLES".as_ptr()).is_null(), Relaxed);
        if let Err(error) = arm(&Counting) {
            eprintln!("counting: {error}");
            libc::_exit(97);
        }
    }
}
