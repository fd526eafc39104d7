//! The calls in which threads block, during which the threads may be at a safepoint (zm-A8).

/// Returns whether a call both may block for long and accesses only memory that its table row
/// describes. This excludes memory that the kernel knows from earlier calls (`ioctl` on a virtual
/// machine) or that a call addresses by an offset.
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

/// Returns whether a signal for the runtime may interrupt a call. After the signal, the kernel
/// restarts such a call, or the runtime issues it again with the same arguments; the call does not
/// wait longer in total.
pub(crate) fn may_be_asked(number: usize, args: &[usize; 6]) -> bool {
    let has_no_end = |milliseconds: usize| (milliseconds as i32) < 0;
    match number as i64 {
        libc::SYS_wait4 | libc::SYS_waitid => true,
        // The kernel writes the remaining time to the program's memory.
        libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6 => true,
        libc::SYS_futex => match args[1] as i32 & libc::FUTEX_CMD_MASK {
            libc::FUTEX_WAIT => args[3] == 0,
            // The time is absolute.
            libc::FUTEX_WAIT_BITSET => true,
            _ => false,
        },
        libc::SYS_poll => has_no_end(args[2]),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => has_no_end(args[3]),
        libc::SYS_epoll_pwait2 => args[3] == 0,
        libc::SYS_read => true,
        // With MSG_WAITALL, an interrupted call would return the part that was received.
        libc::SYS_recvfrom => args[3] as i32 & libc::MSG_WAITALL == 0,
        libc::SYS_recvmsg => args[2] as i32 & libc::MSG_WAITALL == 0,
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_pause | libc::SYS_flock => true,
        _ => false,
    }
}

/// Returns whether a debugger's signal may interrupt a call, which is then issued again. If the
/// kernel does not write the remaining time of a call (`poll`, `epoll_wait`), the call starts again
/// with the full time.
pub(crate) fn may_be_debugged(number: usize, args: &[usize; 6]) -> bool {
    match number as i64 {
        // No other operation fails with EINTR: the kernel restarts operations that lock.
        libc::SYS_futex => {
            let operation = args[1] as i32 & libc::FUTEX_CMD_MASK;
            matches!(operation, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
        }
        _ => waits(number) || may_be_asked(number, args),
    }
}
