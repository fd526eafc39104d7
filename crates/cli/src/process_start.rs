//! What a process does before anything else, so that less of its address space is wasted, and less
//! can fail.
//!
//! # Safety
//! The function before `main` runs on the only thread there is, before the standard library has set
//! anything up, and calls nothing but `signal` and `mallopt`. What is done in `main` may be done at
//! any time. What is done in a child before it executes a program calls nothing but `signal`.
//! Descriptors that were passed are taken once, before this process has opened any that it keeps,
//! and each of them is open: so nobody else has them.
#![allow(unsafe_code)]

use rustix::process::{Resource, getrlimit};
use std::hint::black_box;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of the first thread's stack that commands of long work touch as they begin: it grows as it
/// is touched, and if address space is full, a touch beyond it ends the process.
const STACK: usize = 256 << 10;

/// Bytes that the process can allocate at its start. The C library grows by 1 MiB where its heap
/// can't.
const AT_START: usize = 2 << 20;

/// Whether SIGPIPE was ignored, as it is by the standard library from `main` on.
static WAS_PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the section holds pointers to functions of no arguments that are needed, which the C
// library calls in turn.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Has the standard library leave signals of faults alone: for its message about a stack that
/// overflows it maps memory with each new thread, and ends the process where it gets none. Ignored
/// they end it all the same, without the message.
extern "C" fn before_main() {
    set_faults(Faults::Ignored);
    // SAFETY: it sets what becomes of a signal to the default, and back.
    unsafe {
        let before = libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, before);
        WAS_PIPE_IGNORED.store(before == libc::SIG_IGN, Relaxed);
    }
    // Each arena of the C library's takes 64 MiB of address space, and there would be several a
    // processor.
    #[cfg(target_env = "gnu")]
    // SAFETY: there is no other thread yet; what is allocated already stays where it is.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// What becomes of signals of a fault of the program's.
#[derive(Clone, Copy)]
enum Faults {
    Ignored,
    Default,
}

/// Sets that, unless someone else has, as a sanitizer.
fn set_faults(faults: Faults) {
    let (from, to) = match faults {
        Faults::Ignored => (libc::SIG_DFL, libc::SIG_IGN),
        Faults::Default => (libc::SIG_IGN, libc::SIG_DFL),
    };
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: it sets what becomes of a signal to one of these two, or back.
        unsafe {
            let before = libc::signal(signal, to);
            if before != from {
                libc::signal(signal, before);
            }
        }
    }
}

/// Restores the signals as they were, for programs that this one starts. `main` calls it as it
/// begins.
pub(crate) fn prepare() {
    set_faults(Faults::Default);
}

/// Gives the first thread its stack. A process that [`has_memory`] can have it.
pub(crate) fn provide_stack() {
    let stack = getrlimit(Resource::Stack).current;
    if stack.is_none_or(|bytes| bytes >= 2 * STACK as u64) {
        touch_stack();
    }
}

/// Returns whether the process can have the memory that it needs before it keeps a reserve: an
/// allocation that fails before would end it without a reason.
pub(crate) fn has_memory() -> bool {
    Vec::<u8>::new().try_reserve_exact(AT_START).is_ok()
}

/// Has a program begin with SIGPIPE as this one had it: the standard library sets the default.
pub(crate) fn keep_pipe_signal(command: &mut Command) {
    if WAS_PIPE_IGNORED.load(Relaxed) {
        // SAFETY: `signal` may be called between a fork and the execution of a program.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                Ok(())
            });
        }
    }
}

/// Returns the sockets that a service manager passed to this process (LISTEN_FDS), each with its
/// name. To be called before any file is opened; from the second call on there are none.
///
/// # Errors
/// The environment is not as it must be, or names descriptors that are not open.
pub(crate) fn passed_sockets() -> io::Result<Vec<(String, OwnedFd)>> {
    static ARE_TAKEN: AtomicBool = AtomicBool::new(false);
    if ARE_TAKEN.swap(true, Relaxed) {
        return Ok(Vec::new());
    }
    // If they are another process's, or none, their names have no meaning here.
    if sd_notify::listen_fds()?.len() == 0 {
        return Ok(Vec::new());
    }
    // Each was found to be open, as it was marked to be closed on exec.
    let passed = sd_notify::listen_fds_with_names()?;
    // SAFETY: see the file's head.
    Ok(passed.map(|(socket, name)| (name, unsafe { OwnedFd::from_raw_fd(socket) })).collect())
}

#[inline(never)]
fn touch_stack() {
    black_box([0_u8; STACK]);
}
