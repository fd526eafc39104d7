//! Threads of other processes, as shown by /proc.

use crate::executed::contents;
use calls::{Wait, When};
use dispatch::{OwnFile, system};
use std::ffi::CString;
use std::mem::offset_of;

/// The offsets of the entry's length and of the name in a directory entry.
const LENGTH_AT: usize = offset_of!(libc::dirent64, d_reclen);
const NAME_AT: usize = offset_of!(libc::dirent64, d_name);

/// Returns whether a process is the caller's process.
pub(crate) fn is_own(process: usize) -> bool {
    system(libc::SYS_getpid, [0; 6]) == Ok(process)
}

/// Returns whether a thread can't handle a signal, because the thread has stopped or ended.
pub(crate) fn is_stopped(process: usize, thread: usize) -> bool {
    let stat = contents(&format!("/proc/{process}/task/{thread}/stat"));
    // The second field is a name in parentheses, which can contain any bytes.
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(0);
    stat.get(end + 2).is_none_or(|state| matches!(state, b't' | b'T' | b'Z' | b'X'))
}

/// Returns true if this process is allowed to send a signal to a thread: the thread runs, or waits
/// in a call whose arguments fulfil the condition that `of` returns.
pub(crate) fn may_ask(process: usize, thread: usize, of: impl Fn(Wait) -> When) -> bool {
    let text = contents(&format!("/proc/{process}/task/{thread}/syscall"));
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split(' ');
    let number = words.next().and_then(|number| number.parse().ok());
    let hex = |word: &str| usize::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
    let args = <[usize; 6]>::try_from(words.take(6).map(hex).collect::<Vec<_>>()).ok();
    let wait = number.and_then(calls::spec).and_then(|spec| spec.wait);
    let is_in_call = wait.zip(args).is_some_and(|(wait, args)| of(wait).holds(&args));
    text.starts_with("running") || is_in_call
}

/// Returns the IDs of the threads of a process, if /proc shows them.
pub(crate) fn threads_of(process: usize) -> Vec<usize> {
    let path = CString::new(format!("/proc/{process}/task")).unwrap_or_default();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let Ok(folder) = OwnFile::open(&path, flags) else { return Vec::new() };
    let (mut threads, mut entries) = (Vec::new(), [0u8; 4096]);
    let args = [folder.descriptor(), entries.as_mut_ptr().addr(), entries.len(), 0, 0, 0];
    while let Ok(bytes @ 1..) = system(libc::SYS_getdents64, args) {
        let mut rest = &entries[..bytes];
        while let Some([low, high]) = rest.get(LENGTH_AT..NAME_AT - 1) {
            let length = usize::from(u16::from_ne_bytes([*low, *high]));
            let Some((entry, next)) = rest.split_at_checked(length.max(NAME_AT)) else { break };
            let name = entry[NAME_AT..].split(|byte| *byte == 0).next().unwrap_or_default();
            threads.extend(str::from_utf8(name).ok().and_then(|name| name.parse::<usize>().ok()));
            rest = next;
        }
    }
    threads
}
