//! Calls that do not wait for an event that a signal could interrupt. Such calls are issued with
//! signals blocked, which saves two system calls.
//!
//! # Safety
//! The program requested each call, or the call writes to memory of this crate whose address the
//! caller passes.
#![allow(unsafe_code)]

use crate::mask::BYTES;
use crate::x86_64::instructions::raw_syscall;

/// Returns whether a call is brief. If this list lacks a brief call, the call only takes more time.
pub(crate) fn is_brief(number: usize) -> bool {
    matches!(
        number as i64,
        libc::SYS_stat
            | libc::SYS_fstat
            | libc::SYS_lstat
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_lseek
            | libc::SYS_access
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_readlink
            | libc::SYS_getcwd
            | libc::SYS_mmap
            | libc::SYS_mprotect
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_madvise
            | libc::SYS_mincore
            | libc::SYS_brk
            | libc::SYS_pipe
            | libc::SYS_pipe2
            | libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_getpid
            | libc::SYS_gettid
            | libc::SYS_getppid
            | libc::SYS_getuid
            | libc::SYS_geteuid
            | libc::SYS_getgid
            | libc::SYS_getegid
            | libc::SYS_uname
            | libc::SYS_sysinfo
            | libc::SYS_getrusage
            | libc::SYS_times
            | libc::SYS_gettimeofday
            | libc::SYS_clock_gettime
            | libc::SYS_clock_getres
            | libc::SYS_setitimer
            | libc::SYS_getitimer
            | libc::SYS_alarm
            | libc::SYS_prlimit64
            | libc::SYS_getrlimit
            | libc::SYS_sched_yield
            | libc::SYS_sched_getaffinity
            | libc::SYS_set_robust_list
            | libc::SYS_set_tid_address
            | libc::SYS_rseq
            | libc::SYS_arch_prctl
            | libc::SYS_tgkill
            | libc::SYS_kill
            | libc::SYS_epoll_ctl
    )
}

/// Writes the set of pending signals to `at`.
pub(crate) fn sigpending(at: usize) -> isize {
    // SAFETY: `at` is the address of the call's scratch memory: see `signal_calls`.
    unsafe { raw_syscall(libc::SYS_rt_sigpending as usize, [at, BYTES, 0, 0, 0, 0]) }
}
