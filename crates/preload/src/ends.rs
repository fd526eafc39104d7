//! The system calls before which the library's own thread is ended (pl-13).

use std::ffi::c_int;

/// Of `close_range`.
const CLOSE_RANGE_UNSHARE: usize = 2;

/// When the library's own thread is ended for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    No,
    /// Until blocks are evicted again: a process of several threads is refused the call, or it
    /// changes what a thread may do or has, which one that begins later has from its maker.
    Once,
    /// A filter may end the process when a thread is made.
    ForGood,
}

/// Returns whether the library's own thread is ended before a call.
pub(crate) fn ends_for(number: usize, args: &[usize; 6]) -> Ends {
    match number as i64 {
        libc::SYS_seccomp => Ends::ForGood,
        libc::SYS_prctl => match args[0] as c_int {
            libc::PR_SET_SECCOMP => Ends::ForGood,
            libc::PR_SET_NO_NEW_PRIVS | libc::PR_CAPBSET_DROP | libc::PR_CAP_AMBIENT => Ends::Once,
            libc::PR_SET_SECUREBITS | libc::PR_SET_KEEPCAPS => Ends::Once,
            _ => Ends::No,
        },
        libc::SYS_close_range if args[2] & CLOSE_RANGE_UNSHARE != 0 => Ends::Once,
        // What it has locked in memory that another process shares would stay so.
        libc::SYS_execve | libc::SYS_execveat | libc::SYS_exit_group => Ends::Once,
        libc::SYS_unshare | libc::SYS_setns | libc::SYS_landlock_restrict_self => Ends::Once,
        libc::SYS_capset | libc::SYS_setgroups => Ends::Once,
        libc::SYS_setuid | libc::SYS_setreuid | libc::SYS_setresuid => Ends::Once,
        libc::SYS_setgid | libc::SYS_setregid | libc::SYS_setresgid => Ends::Once,
        libc::SYS_setfsuid | libc::SYS_setfsgid => Ends::Once,
        _ => Ends::No,
    }
}
