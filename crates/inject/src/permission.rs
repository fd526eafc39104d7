//! Detects seccomp filters that kill a process because it traces another process.
//!
//! # Safety
//! The forked child only makes system calls. The arguments of these calls refer only to the child's
//! own memory.
#![allow(unsafe_code)]

use crate::system::{CLOSE_ALL, system, wait};
use dispatch::raw_syscall;

/// Returns whether the filters of this process permit a helper's system calls. A child process
/// issues these calls as a test, and writes no core file. A helper can't issue them as a test,
/// because before Linux 5.16 a filter that kills a process kills all processes that share its
/// memory.
pub fn is_permitted() -> bool {
    if system(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0]) == Ok(0) {
        return true;
    }
    // SAFETY: the child has its own copy of the memory and a single thread, and only makes system
    // calls.
    match unsafe { raw_syscall(libc::SYS_clone as usize, [0; 6]) } {
        0 => try_calls(),
        child if child > 0 => wait(child as i32).is_ok_and(|(_, status)| status == 0),
        _ => false,
    }
}

/// Issues the system calls of a helper, and ignores their errors.
fn try_calls() -> ! {
    let own = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
    let no_core = [libc::PR_SET_DUMPABLE as usize, 0, 0, 0, 0, 0];
    for (number, args) in [
        (libc::SYS_prctl, no_core),
        (libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, own, 0, 0, 0, 0]),
        (libc::SYS_process_vm_readv, [own, 0, 0, 0, 0, 0]),
        (libc::SYS_process_vm_writev, [own, 0, 0, 0, 0, 0]),
        (libc::SYS_prlimit64, [0; 6]),
        (libc::SYS_getcpu, [0; 6]),
        (libc::SYS_sched_setaffinity, [0; 6]),
        (libc::SYS_close_range, CLOSE_ALL),
    ] {
        let _tried = system(number, args);
    }
    loop {
        let _ended = system(libc::SYS_exit_group, [0; 6]);
    }
}
