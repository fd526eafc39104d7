//! The calls in which threads wait, and may be at a safepoint (zm-A8).

/// Returns whether a call may take long, and touches what its row in the table says and nothing
/// else: no memory that the system was told of before (`ioctl` on a virtual machine), and none by
/// offset.
pub(crate) fn waits(number: usize) -> bool {
    matches!(
        number as i64,
        libc::SYS_futex
            | libc::SYS_futex_waitv
            | libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_pause
            | libc::SYS_rt_sigsuspend
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_sendto
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_flock
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_msgrcv
            | libc::SYS_semop
            | libc::SYS_semtimedop
    )
}
