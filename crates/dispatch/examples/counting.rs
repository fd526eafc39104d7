//! A preloaded library that counts dispatched calls, and lets the calls continue.
//!
//! When a process ends or executes another program, the library writes a line to the file that
//! `DISPATCH_COUNTS` names. The line contains the numbers of dispatched calls, of calls without a
//! result ([`Outcome::GivenUp`]), of begun threads, forks and ended threads, and of remaining pins.
//!
//! With `DISPATCH_BY_CALLS` set, `dispatch` reads and sets thread pointers by system calls. With
//! `DISPATCH_SIMPLE` set, simple calls need no signal, and the hook marks managed blocks as absent
//! and as resident in turn. With `DISPATCH_MEDDLES` set, the hook changes calls, sets results of
//! calls, and maps a page at its first access.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code)]

use dispatch::simple::{PIN, RESIDENT, Simple};
use dispatch::{Call, Hook, Outcome, Step, arm, release_all_code, release_code};
use std::cell::Cell;
use std::ffi::CStr;
use std::io::{Cursor, Write};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

static CALLS: AtomicU64 = AtomicU64::new(0);
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
static BEGUN: AtomicU64 = AtomicU64::new(0);
static FORKS: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
static FILE: OnceLock<&'static CStr> = OnceLock::new();

/// The value that the hook stores in a call's note while the call is issued.
const NOTED: u64 = 0x6e6f_7465;

static MEDDLES: AtomicBool = AtomicBool::new(false);
/// The address of a page that is mapped at its first access, and the result of calls that the hook
/// does not issue.
const PAGE: usize = 0x5555_0000_0000;
const ANSWER: isize = 4242;
const PAGE_BYTES: usize = 4096;

/// The addresses of the managed blocks of simple.c, and the state words of these blocks.
const MEMORY: Range<usize> = 0x5556_0000_0000..0x5556_0001_0000;
static WORDS: [AtomicU32; 16] = [const { AtomicU32::new(RESIDENT) }; 16];
/// The state word of an absent block.
const ABSENT: u32 = 4;
static GATE: AtomicU64 = AtomicU64::new(0);
static THREADS: AtomicUsize = AtomicUsize::new(1);
static IS_SIMPLE: AtomicBool = AtomicBool::new(false);

/// Lets `dispatch` issue simple calls without a signal.
fn begin_simple() {
    let (memory, block) = (MEMORY, PAGE_BYTES);
    let (gate, threads) = (&GATE, &THREADS);
    dispatch::simple::set(&Simple {
        gate,
        threads,
        memory,
        words: &WORDS,
        block,
        descriptor: Some(900),
    });
    IS_SIMPLE.store(true, Relaxed);
}

/// Marks a managed block as absent, or as resident again. After every fifth dispatched call, no
/// simple call is issued until the next dispatched call.
fn disturb(nth: u64) {
    GATE.store(u64::from(nth.is_multiple_of(5)), Relaxed);
    let word = &WORDS[(nth % 16) as usize];
    let (from, to) = if nth % 32 < 16 { (RESIDENT, ABSENT) } else { (ABSENT, RESIDENT) };
    // A pinned block stays resident.
    let _changed = word.compare_exchange(from, to, Relaxed, Relaxed);
}

/// Restores the `syscall` instructions that `dispatch` has replaced, before the program changes
/// mappings of code or sets a filter.
fn release(call: &Call) {
    let [start, bytes, ..] = call.args();
    let number = call.number() as i64;
    if number == libc::SYS_prctl && start == libc::PR_SET_SECCOMP as usize {
        release_all_code();
    }
    if matches!(number, libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mprotect) {
        assert!(release_code(&(start..start.saturating_add(bytes)), false), "no code is written");
    }
}

/// Maps the page at `PAGE`.
fn bring() {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the call maps only free addresses, because of MAP_FIXED_NOREPLACE.
    unsafe { libc::mmap(PAGE as *mut _, PAGE_BYTES, prot, flags, -1, 0) };
}

/// Depending on the call's number, sets the call's result, changes the call, or issues it.
fn meddle(call: &mut Call) -> Step {
    match call.number() as i64 {
        libc::SYS_getppid => Step::Answer(ANSWER),
        libc::SYS_getpgrp => {
            call.set_number(libc::SYS_getpid as usize);
            Step::Issue
        }
        // SAFETY: the call only returns a number.
        libc::SYS_getuid => unsafe { Step::Answer(call.issue() + ANSWER) },
        _ => Step::Issue,
    }
}

thread_local! {
    /// The number of dispatched calls of this thread.
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

/// Writes the line with the counts of this process.
fn write_counts(end: &str) {
    let Some(path) = FILE.get() else { return };
    let mut line = [0u8; 200];
    let mut at = Cursor::new(&mut line[..]);
    let counts = [&CALLS, &GIVEN_UP, &BEGUN, &FORKS, &ENDED].map(|count| count.load(Relaxed));
    let [calls, given_up, begun, forks, ended] = counts;
    let pins: u32 = WORDS.iter().map(|word| word.load(Relaxed) / PIN).sum();
    let _ = writeln!(at, "{calls} {given_up} {begun} {forks} {ended} {pins} {end}");
    let bytes = at.position() as usize;
    // SAFETY: the path ends with a NUL, and the line is local.
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
        let nth = CALLS.fetch_add(1, Relaxed);
        if IS_SIMPLE.load(Relaxed) {
            disturb(nth);
            release(call);
        }
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

    fn fault(&self, _: i32, info: *const libc::siginfo_t, _: *mut libc::ucontext_t) -> bool {
        // SAFETY: the structure is the kernel's and describes a fault, so it contains an address.
        let address = unsafe { (*info).si_addr() }.addr();
        let is_ours = MEDDLES.load(Relaxed) && address & !(PAGE_BYTES - 1) == PAGE;
        if is_ours {
            bring();
        }
        is_ours
    }

    fn map_code(&self, range: Range<usize>) -> bool {
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: the call maps only free addresses, because of MAP_FIXED_NOREPLACE.
        let at = unsafe { libc::mmap(range.start as *mut _, range.len(), prot, flags, -1, 0) };
        at.addr() == range.start
    }

    fn thread_begins(&self) {
        THREADS.fetch_add(1, Relaxed);
        BEGUN.fetch_add(1, Relaxed);
    }

    fn after_fork_in_child(&self) {
        FORKS.fetch_add(1, Relaxed);
    }

    fn thread_ends(&self) {
        THREADS.fetch_sub(1, Relaxed);
        ENDED.fetch_add(1, Relaxed);
    }
}

// The C library's `__tls_get_addr` finds a library's storage in a table of the thread. Storage that
// `dispatch` lays out has no entry in that table. On every thread, the storage of this library has
// the same distance from the thread pointer, so this library defines another `__tls_get_addr`.
std::arch::global_asm!(
    ".pushsection .tbss.uzram_dispatch, \"awT\", @nobits",
    ".balign 8",
    ".hidden uzram_dispatch_anchor",
    ".type uzram_dispatch_anchor, @tls_object",
    "uzram_dispatch_anchor:",
    ".zero 8",
    ".size uzram_dispatch_anchor, 8",
    ".popsection",
    ".pushsection .text.uzram_dispatch, \"ax\", @progbits",
    ".balign 16",
    ".hidden __tls_get_addr",
    ".globl __tls_get_addr",
    ".type __tls_get_addr, @function",
    // The argument consists of a module, which can only be this library, and an offset.
    "__tls_get_addr:",
    "mov rax, fs:[0]",
    "add rax, [rip + uzram_dispatch_anchor@GOTTPOFF]",
    "lea rcx, [uzram_dispatch_anchor@DTPOFF]",
    "sub rax, rcx",
    "add rax, [rdi + 8]",
    "ret",
    ".popsection",
);

#[used]
// SAFETY: the section holds pointers to functions without arguments, which the C library calls one
// after the other.
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: the environment is not changed before `main`, and is never freed. Only one thread
    // runs, and the hook obeys the rules of `Hook`.
    unsafe {
        let path = libc::getenv(c"DISPATCH_COUNTS".as_ptr());
        if !path.is_null() {
            let _ = FILE.set(CStr::from_ptr(libc::strdup(path)));
        }
        if !libc::getenv(c"DISPATCH_BY_CALLS".as_ptr()).is_null() {
            dispatch::use_calls_for_pointers();
        }
        MEDDLES.store(!libc::getenv(c"DISPATCH_MEDDLES".as_ptr()).is_null(), Relaxed);
        if !libc::getenv(c"DISPATCH_SIMPLE".as_ptr()).is_null() {
            begin_simple();
        }
        if let Err(error) = arm(&Counting) {
            eprintln!("counting: {error}");
            libc::_exit(97);
        }
    }
}
