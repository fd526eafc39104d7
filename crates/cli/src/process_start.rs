//! Process setup that saves address space and prevents later failures.
//!
//! # Safety
//! The function before `main` runs on the only thread, before the standard library has set anything
//! up, and calls only `signal` and `mallopt`. The setup in `main` may happen at any time. The code
//! that runs in a child before the child executes a program calls only `signal`. The passed
//! descriptors are taken once, before this process opens a descriptor that stays open. Each of them
//! is open, so it has no other owner.
#![allow(unsafe_code)]

use crate::policy::{AT_START, FIRST_STACK};
use rustix::process::{Resource, getrlimit};
use std::hint::black_box;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether SIGPIPE was ignored before `main`. From `main` on, the standard library ignores SIGPIPE.
static WAS_PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the section holds pointers to functions without arguments, which the C library calls in
// order, before `main`.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Prevents the standard library from handling signals of faults. To report stack overflows, the
/// standard library maps memory in each new thread, and ends the process if that fails. The
/// standard library leaves ignored signals alone, and a stack overflow still ends the process, but
/// without a message.
extern "C" fn before_main() {
    set_faults(libc::SIG_DFL, libc::SIG_IGN);
    // SAFETY: the calls only set the action of a signal to the default, and back.
    unsafe {
        let before = libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, before);
        WAS_PIPE_IGNORED.store(before == libc::SIG_IGN, Relaxed);
    }
    // Each arena of the C library takes 64 MiB of address space, and the C library would create
    // several arenas per processor.
    #[cfg(target_env = "gnu")]
    // SAFETY: no other thread exists yet; memory that is already allocated is not affected.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Changes the action of the signals for invalid memory accesses of this process, unless other
/// code, such as a sanitizer, has changed it.
fn set_faults(from: libc::sighandler_t, to: libc::sighandler_t) {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the calls only set the action of a signal to the default or to "ignore", or
        // restore it.
        unsafe {
            let before = libc::signal(signal, to);
            if before != from {
                libc::signal(signal, before);
            }
        }
    }
}

/// Restores the actions of signals for the programs that this process starts. `main` calls this
/// function first.
pub(crate) fn prepare() {
    set_faults(libc::SIG_IGN, libc::SIG_DFL);
}

/// Touches the first thread's stack, so that the stack need not grow later. The touch can't fail if
/// [`has_memory`] returned true.
pub(crate) fn provide_stack() {
    let stack = getrlimit(Resource::Stack).current;
    if stack.is_none_or(|bytes| bytes >= 2 * FIRST_STACK as u64) {
        touch_stack();
    }
}

/// Returns whether the process can allocate the memory that it needs until the reserve exists.
/// Until then, a failed allocation would end the process without a message.
pub(crate) fn has_memory() -> bool {
    Vec::<u8>::new().try_reserve_exact(AT_START).is_ok()
}

/// Makes `command` start its program with the action of SIGPIPE that this process inherited,
/// because the standard library would set the default action.
pub(crate) fn keep_pipe_signal(command: &mut Command) {
    if WAS_PIPE_IGNORED.load(Relaxed) {
        // SAFETY: the closure calls only `signal`, which may be called between a fork and the
        // execution of a program.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                Ok(())
            });
        }
    }
}

/// Returns the sockets that a service manager passed to this process (LISTEN_FDS), each with its
/// name. Call this function before any file is opened. All calls after the first one return an
/// empty list.
///
/// # Errors
/// Fails if the environment is invalid, or specifies descriptors that are not open.
pub(crate) fn passed_sockets() -> io::Result<Vec<(String, OwnedFd)>> {
    static ARE_TAKEN: AtomicBool = AtomicBool::new(false);
    if ARE_TAKEN.swap(true, Relaxed) {
        return Ok(Vec::new());
    }
    // If no sockets were passed, or if they were passed to another process, the names are ignored.
    if sd_notify::listen_fds()?.len() == 0 {
        return Ok(Vec::new());
    }
    // Each descriptor is open, because marking it close-on-exec succeeded.
    let passed = sd_notify::listen_fds_with_names()?;
    // SAFETY: this function takes the descriptors once, and each is open and has no other owner;
    // see the head of this file.
    Ok(passed.map(|(socket, name)| (name, unsafe { OwnedFd::from_raw_fd(socket) })).collect())
}

#[inline(never)]
fn touch_stack() {
    black_box([0_u8; FIRST_STACK]);
}
