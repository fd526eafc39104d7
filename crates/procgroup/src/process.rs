//! Information about processes from the kernel: their IDs, names and shares of shared memory, and
//! whether a process has ended.
//!
//! # Safety
//! The only unsafe call writes 16 bytes to an array of 16 bytes.
#![allow(unsafe_code)]

use rustix::fs::{CWD, Mode, OFlags, open, readlinkat_raw};
use rustix::io::{Errno, read};
use rustix::process::{Pid, test_kill_process};
use std::ffi::CStr;
use std::fmt::Arguments;
use std::io::Write;
use zmem::File;

/// Calls `work` with a path of at most 31 bytes. Returns `None` for a longer path. The path is on
/// the stack, because a signal handler must not allocate.
fn with_path<T>(path: Arguments<'_>, work: impl FnOnce(&CStr) -> T) -> Option<T> {
    let mut bytes = [0; 32];
    // The last byte of the array stays 0 and terminates the path.
    (&mut bytes[..31]).write_fmt(path).ok()?;
    CStr::from_bytes_until_nul(&bytes).ok().map(work)
}

/// Returns true if a process does not exist, or has ended and its parent has not waited for it.
/// Returns false if this process is confined by a seccomp filter (pl-28), because the filter may
/// refuse the necessary system calls.
pub fn is_gone(process: u64) -> bool {
    if page::is_confined() {
        return false;
    }
    let number = i32::try_from(process).ok().and_then(Pid::from_raw);
    let Some(number) = number else { return true };
    if test_kill_process(number) == Err(Errno::SRCH) {
        return true;
    }
    // An ended process exists until its parent waits for it, but it has no executable.
    let is_without = |path: &CStr| {
        let mut to = [0; 1];
        readlinkat_raw(CWD, path, &mut to).is_err_and(|error| error == Errno::NOENT)
    };
    let has_none = with_path(format_args!("/proc/{process}/exe"), is_without) == Some(true);
    // If the link of this process is missing too, /proc is not usable and proves nothing.
    has_none && !is_without(c"/proc/self/exe")
}

/// Returns the process's proportional share of shared memory in bytes. Returns `None` if /proc does
/// not report this share (before Linux 5.4).
pub(crate) fn shared_memory(process: u64) -> Option<u64> {
    if page::is_confined() {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let open = |path: &CStr| open(path, flags, Mode::empty());
    let path = format_args!("/proc/{process}/smaps_rollup");
    let file = File::from(with_path(path, open)?.ok()?);
    let mut bytes = [0; 2048];
    let len = read(file, &mut bytes).ok()?;
    let text = str::from_utf8(&bytes[..len]).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Shmem:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Returns the kernel's name of this thread, or zeros if the process is confined by a seccomp
/// filter.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    if !page::is_confined() {
        // SAFETY: the kernel writes 16 bytes, which is the size of `name`.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    }
    name
}

/// Returns the ID of this process.
pub(crate) fn own_number() -> u64 {
    rustix::process::getpid().as_raw_nonzero().get() as u64
}
