//! Reads from /proc whether a process has ended, and how much memory this process uses.

use crate::descriptor::File;
use crate::kept_file::MEMORY_USED;
use rustix::fs::{CWD, Mode, OFlags, open, readlinkat_raw};
use rustix::io::{Errno, pread, read};
use rustix::process::{Pid, test_kill_process};
use std::ffi::CStr;
use std::fmt::Write;

/// Text in a buffer on the stack, because a signal handler must not allocate.
#[derive(Debug, Default)]
struct Text {
    bytes: [u8; 32],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        // The last byte stays 0, because it terminates the text.
        let to = self.bytes[..31].get_mut(self.len..self.len + text.len());
        to.ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Returns true if a process does not exist, or has ended but was not waited for. Returns false if
/// this process is confined, because a confined process can't check this.
pub(crate) fn is_gone(process: i32) -> bool {
    if page::is_confined() {
        return false;
    }
    let Some(number) = Pid::from_raw(process) else { return true };
    if test_kill_process(number) == Err(Errno::SRCH) {
        return true;
    }
    // An ended process that was not waited for still exists, but has no executable.
    let mut path = Text::default();
    let written = write!(path, "/proc/{process}/exe");
    let is_without = |path: &CStr| {
        let mut to = [0; 1];
        readlinkat_raw(CWD, path, &mut to).is_err_and(|error| error == Errno::NOENT)
    };
    let path = CStr::from_bytes_until_nul(&path.bytes);
    let has_none = written.is_ok() && path.is_ok_and(is_without);
    // If the link of this process is missing as well, /proc is not usable and proves nothing.
    has_none && !is_without(c"/proc/self/exe")
}

/// Returns the size of this process's anonymous memory in bytes, if it can be read from /proc.
pub(crate) fn anonymous() -> Option<u64> {
    if page::is_confined() {
        return None;
    }
    let mut bytes = [0; 96];
    let len = MEMORY_USED.with(|file| pread(file, &mut bytes, 0)).ok()?;
    let text = str::from_utf8(&bytes[..len]).ok()?;
    let mut numbers = text.split(' ').map(str::parse::<u64>);
    let (resident, shared) = (numbers.nth(1)?.ok()?, numbers.next()?.ok()?);
    // If the first thread of a process has ended, the kernel reports 0 pages.
    (resident > 0).then_some(resident.saturating_sub(shared) * page::page_size() as u64)
}

/// Returns the proportional share of shared memory of the process `process`, in bytes, if /proc
/// reports this share (since Linux 5.4).
pub(crate) fn shared(process: u64) -> Option<u64> {
    if page::is_confined() {
        return None;
    }
    let mut path = Text::default();
    write!(path, "/proc/{process}/smaps_rollup").ok()?;
    let path = CStr::from_bytes_until_nul(&path.bytes).ok()?;
    let file = File::from(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?);
    let mut bytes = [0; 2048];
    let len = read(file, &mut bytes).ok()?;
    let text = str::from_utf8(&bytes[..len]).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Shmem:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_has_is_told() {
        let before = anonymous().unwrap();
        let block = vec![1u8; 64 << 20];
        let with = anonymous().unwrap();
        assert!(with >= before + (60 << 20), "{before}, {with}, {}", block[5]);
    }
}
