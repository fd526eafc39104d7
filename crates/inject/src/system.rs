//! System calls that bypass syscall user dispatch. Failures are returned as errno values.

/// The size of a signal mask in bytes.
pub(crate) const MASK_BYTES: usize = size_of::<u64>();
/// The arguments with which `close_range` closes all descriptors of this process above standard
/// error. Reports are written to standard error.
pub(crate) const CLOSE_ALL: [usize; 6] =
    [3, u32::MAX as usize, libc::CLOSE_RANGE_UNSHARE as usize, 0, 0, 0];

/// The errno value of a failed system call.
pub(crate) type Errno = i32;

pub(crate) fn system(number: i64, args: [usize; 6]) -> Result<usize, Errno> {
    dispatch::system(number, args).map_err(|failed| -failed as Errno)
}

/// Waits until a child or a traced process changes its state. Returns the process ID and the
/// status.
///
/// # Errors
/// Fails with the error of `wait4`, for example if no such process exists.
pub(crate) fn wait(process: i32) -> Result<(i32, i32), Errno> {
    let mut status = 0_i32;
    let at = (&raw mut status).addr();
    loop {
        match system(libc::SYS_wait4, [process as usize, at, libc::__WALL as usize, 0, 0, 0]) {
            Err(libc::EINTR) => {}
            found => return found.map(|process| (process as i32, status)),
        }
    }
}
