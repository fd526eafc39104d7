//! Maps the segments of a host's file. The traced process issues the system calls.

use crate::host_file::{DATA, Elf, Identity, Segment, Stat};
use crate::policy::PAGE;
use crate::system::Errno;
use crate::tracee::Tracee;
use std::ffi::CStr;

const PRIVATE: usize = libc::MAP_PRIVATE as usize;
const ANONYMOUS: usize = PRIVATE | libc::MAP_ANONYMOUS as usize;
const FIXED: usize = libc::MAP_FIXED as usize;
const NO_FILE: usize = usize::MAX;

/// Maps a file at an address that the kernel chooses, and `more` bytes of zeroed memory after the
/// file. Overwrites stack memory below `scratch` that the process does not use. Returns the base:
/// the difference between addresses in memory and addresses in the file.
///
/// # Errors
/// Fails with the error of a system call, or with ESTALE if `path` now refers to another file.
pub(crate) fn map(
    tracee: &Tracee,
    file: &Elf,
    more: usize,
    path: &CStr,
    scratch: usize,
) -> Result<usize, Errno> {
    let path = path.to_bytes_with_nul();
    let at = scratch - path.len();
    tracee.write(at, path)?;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let fd = tracee.call(libc::SYS_openat, [libc::AT_FDCWD as usize, at, flags, 0, 0, 0])?;
    let checked = check(tracee, file, fd, at);
    let mapped = checked.and_then(|()| map_segments(tracee, file, more, fd));
    let _closed = tracee.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    mapped
}

/// Unmaps the memory that [`map`] has mapped.
pub(crate) fn unmap(tracee: &Tracee, file: &Elf, more: usize, base: usize) {
    let _unmapped = tracee.call(libc::SYS_munmap, [base, file.end() + more, 0, 0, 0, 0]);
}

/// Checks that the descriptor `fd` refers to the file that the helper has read.
fn check(tracee: &Tracee, file: &Elf, fd: usize, scratch: usize) -> Result<(), Errno> {
    let mut stat = Stat::default();
    let at = (scratch - size_of::<Stat>()) & !15;
    tracee.call(libc::SYS_fstat, [fd, at, 0, 0, 0, 0])?;
    let bytes = tracee.read(at, &mut stat)?;
    let is_same = bytes == size_of::<Stat>() && Identity::of(&stat) == file.identity;
    if is_same { Ok(()) } else { Err(libc::ESTALE) }
}

/// Maps zeroed memory, and the file's segments over it. Pages without data in the file stay zeroed.
/// Returns the base.
fn map_segments(tracee: &Tracee, file: &Elf, more: usize, fd: usize) -> Result<usize, Errno> {
    let base = tracee.call(libc::SYS_mmap, [0, file.end() + more, DATA, ANONYMOUS, NO_FILE, 0])?;
    let mapped = file.segments().iter().try_for_each(|part| map_segment(tracee, part, base, fd));
    mapped.inspect_err(|_| unmap(tracee, file, more, base))?;
    Ok(base)
}

fn map_segment(tracee: &Tracee, segment: &Segment, base: usize, fd: usize) -> Result<(), Errno> {
    let page = segment.start & !(PAGE - 1);
    let (at, bytes) = (base + page, segment.file_end - page);
    let offset = segment.offset - (segment.start - page);
    tracee.call(libc::SYS_mmap, [at, bytes, segment.prot, PRIVATE | FIXED, fd, offset])?;
    let file_end = segment.file_end.next_multiple_of(PAGE);
    if segment.prot == DATA && file_end > segment.file_end {
        tracee.write(base + segment.file_end, &[0; PAGE][..file_end - segment.file_end])?;
    }
    Ok(())
}
