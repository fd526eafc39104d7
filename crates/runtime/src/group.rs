//! The file that the processes with a common limit share. This module keeps the file's descriptor
//! open.
//!
//! ```text
//!   uzram run: makes it, descriptor N -> each program: maps it; N stays open for the next program
//!                              N is closed (by a program without a host) -> the parent's N
//! ```
//! The mapping needs no descriptor (pl-7), and the program can't close descriptor N (pl-8).
//!
//! # Safety
//! The file stays mapped for the life of the process, and can't be truncated. The file contains
//! only integers, which are atomic because other processes change them at any time.
#![allow(unsafe_code)]

use crate::kernel::{CWD, EBADF};
use crate::settings::GroupName;
use dispatch::{Failed, OwnFile, system};
use procgroup::{GroupMember, ProcessGroup};
use std::ffi::CString;
use std::mem::zeroed;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const NAMESPACE: &str = "/proc/self/ns/pid\0";

/// The membership of this process in its group, and the group's file.
#[derive(Debug)]
pub(crate) struct GroupFile {
    pub(crate) member: Arc<GroupMember>,
    /// The number of the file's descriptor, which executed programs inherit.
    number: usize,
}

/// Returns the kernel's metadata of a file.
pub(crate) fn stat(number: i64, args: [usize; 2]) -> Result<libc::stat, Failed> {
    // SAFETY: all fields of the structure are integers.
    let mut facts: libc::stat = unsafe { zeroed() };
    let at = (&raw mut facts).addr();
    let args = match number {
        libc::SYS_fstat => [args[0], at, 0, 0, 0, 0],
        _ => [args[0], args[1], at, 0, 0, 0],
    };
    system(number, args).map(|_| facts)
}

impl GroupFile {
    /// Opens the group's file. Returns `None` if the file can't be opened. This process then does
    /// not share the group's limit.
    pub(crate) fn open(name: GroupName) -> Option<Self> {
        let own = Self::map(name.number, name.inode);
        let group = own.or_else(|| Self::of_parent(name))?;
        Some(GroupFile { member: Arc::new(GroupMember::new(group)), number: name.number })
    }

    /// Opens the group's file through the parent's descriptor, and duplicates the new descriptor to
    /// the same number if that number is free.
    fn of_parent(name: GroupName) -> Option<ProcessGroup> {
        let parent = system(libc::SYS_getppid, [0; 6]).ok()?;
        let path = CString::new(format!("/proc/{parent}/fd/{}", name.number)).ok()?;
        let low = OwnFile::open(&path, libc::O_RDWR).ok()?;
        let group = Self::map(low.descriptor(), name.inode);
        if group.is_some() {
            let (as_it_is, number) = (libc::F_DUPFD as usize, name.number);
            let high = system(libc::SYS_fcntl, [low.descriptor(), as_it_is, number, 0, 0, 0]);
            // If the number is not free, the duplicate is closed, because executed programs look
            // for the file only at that number.
            let other = high.ok().filter(|high| *high != number);
            other.inspect(|high| _ = system(libc::SYS_close, [*high, 0, 0, 0, 0, 0]));
        }
        group
    }

    /// Maps the file, if the descriptor refers to the group's file.
    fn map(file: usize, inode: usize) -> Option<ProcessGroup> {
        let facts = stat(libc::SYS_fstat, [file, 0]).ok()?;
        let get_seals = [file, libc::F_GET_SEALS as usize, 0, 0, 0, 0];
        let seals = system(libc::SYS_fcntl, get_seals).unwrap_or(0);
        let is_it = facts.st_ino == inode as u64 && seals & libc::F_SEAL_SHRINK as usize != 0;
        let bytes = usize::try_from(facts.st_size).ok().filter(|bytes| is_it && *bytes > 0)?;
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let args = [0, bytes, prot, libc::MAP_SHARED as usize, file, 0];
        let start = system(libc::SYS_mmap, args).ok()?;
        // SAFETY: `bytes` bytes were just mapped at `start` and are never unmapped; see also
        // "Safety" above.
        let words: &'static [AtomicU64] = unsafe {
            let first = std::ptr::with_exposed_provenance(start);
            std::slice::from_raw_parts(first, bytes / size_of::<AtomicU64>())
        };
        let path = NAMESPACE.as_ptr().addr();
        let space = stat(libc::SYS_newfstatat, [CWD, path]).map_or(0, |facts| facts.st_ino);
        ProcessGroup::of(words, space)
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.number as i32
    }

    /// Handles a call that would close the group's descriptor, or set its close-on-exec flag.
    pub(crate) fn answer(&self, number: usize, args: [usize; 6]) -> Option<isize> {
        let is = |arg: usize| arg as u32 as usize == self.number;
        match number as i64 {
            libc::SYS_close if is(args[0]) => Some(EBADF),
            libc::SYS_dup2 | libc::SYS_dup3 if is(args[1]) => Some(EBADF),
            libc::SYS_close_range => self.close_around(args),
            libc::SYS_fcntl if is(args[0]) && args[1] as i32 == libc::F_SETFD => Some(0),
            libc::SYS_ioctl if is(args[0]) && args[1] as u64 == libc::FIOCLEX => Some(0),
            _ => None,
        }
    }

    /// If a range of descriptors contains the group's descriptor, closes only the other descriptors
    /// of the range.
    fn close_around(&self, args: [usize; 6]) -> Option<isize> {
        let (first, last) = (args[0] as u32 as usize, args[1] as u32 as usize);
        if !(first..=last).contains(&self.number) {
            return None;
        }
        let close = |part: Range<usize>| match part.is_empty() {
            true => Ok(0),
            false => system(libc::SYS_close_range, [part.start, part.end - 1, args[2], 0, 0, 0]),
        };
        let closed = close(first..self.number).and_then(|_| close(self.number + 1..last + 1));
        Some(closed.map_or_else(|error| error, |_| 0))
    }
}
