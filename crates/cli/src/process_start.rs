//! Process setup that saves address space and prevents later failures.
//!
//! # Safety
//! The function before `main` runs on the only thread, before the standard library's setup, and
//! calls only `signal` and `mallopt`. The functions that `main` calls can run at any time. The code
//! that runs in a child before the child executes a program calls only `signal`. The descriptors
//! that a service manager passed are taken once, before this process opens a descriptor that stays
//! open. Each passed descriptor is open and has no other owner.
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

/// Prevents the standard library from handling SIGSEGV and SIGBUS. To report stack overflows, the
/// standard library maps memory in each new thread, and ends the process if the mapping fails. The
/// standard library leaves ignored signals alone. A stack overflow then ends the process without a
/// message.
extern "C" fn before_main() {
    set_faults(libc::SIG_DFL, libc::SIG_IGN);
    // SAFETY: the calls only set the action of a signal to the default, and back.
    unsafe {
        let before = libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, before);
        WAS_PIPE_IGNORED.store(before == libc::SIG_IGN, Relaxed);
    }
    // Each malloc arena uses 64 MiB of address space, and by default the C library creates several
    // per processor.
    #[cfg(target_env = "gnu")]
    // SAFETY: no other thread exists yet. Memory that is already allocated is not affected.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Changes the actions of SIGSEGV and SIGBUS from `from` to `to`. Keeps an action that other code,
/// such as a sanitizer, has set.
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

/// Restores the actions of SIGSEGV and SIGBUS, which programs that this process starts inherit.
/// `main` calls this function first.
pub(crate) fn prepare() {
    set_faults(libc::SIG_IGN, libc::SIG_DFL);
}

/// Touches the first thread's stack, so that the stack need not grow later. If [`has_memory`]
/// returned true, the touch can't fail.
pub(crate) fn provide_stack() {
    let stack = getrlimit(Resource::Stack).current;
    if stack.is_none_or(|bytes| bytes >= 2 * FIRST_STACK as u64) {
        touch_stack();
    }
}

/// Returns whether the process can allocate the memory that it needs before the allocator's reserve
/// exists. Before that, a failed allocation would end the process without a message.
pub(crate) fn has_memory() -> bool {
    Vec::<u8>::new().try_reserve_exact(AT_START).is_ok()
}

/// Makes `command` start its program with the action of SIGPIPE that this process inherited. The
/// standard library would set the default action instead.
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

/// Takes the sockets that a service manager passed to this process (LISTEN_FDS), and returns them
/// with their names. Call this function once, before any file is opened. A further call returns an
/// empty list.
///
/// # Errors
/// Fails if the environment is invalid, or specifies descriptors that are not open.
pub(crate) fn passed_sockets() -> io::Result<Vec<(String, OwnedFd)>> {
    static ARE_TAKEN: AtomicBool = AtomicBool::new(false);
    if ARE_TAKEN.swap(true, Relaxed) {
        return Ok(Vec::new());
    }
    // If no sockets were passed to this process, the names are ignored.
    if sd_notify::listen_fds()?.len() == 0 {
        return Ok(Vec::new());
    }
    // Each descriptor is open, because sd_notify has marked each of them close-on-exec.
    let passed = sd_notify::listen_fds_with_names()?;
    // SAFETY: this function takes the descriptors once, and each is open and has no other owner;
    // see the head of this file.
    Ok(passed.map(|(socket, name)| (name, unsafe { OwnedFd::from_raw_fd(socket) })).collect())
}

#[inline(never)]
fn touch_stack() {
    black_box([0_u8; FIRST_STACK]);
}
