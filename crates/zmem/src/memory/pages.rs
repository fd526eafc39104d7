//! The pages of managed memory, and the contents of these pages. `madvise` calls set guards,
//! control huge pages, and separate the pages of parent and child. The contents are read and
//! written through /proc/thread-self/mem, which ignores the protection of memory.
//!
//! A descriptor of this file refers to the memory of the process that opened the file. A child that
//! used the inherited descriptor would write to its parent's memory, so the child opens the file
//! again.
//!
//! # Safety
//! See [`memory`](super). Only the `madvise` calls of [`guard`] and [`unguard`] change data.
#![allow(unsafe_code)]

use super::Managed;
use crate::descriptor::MEMORY;
use crate::error::last_error;
use crate::policy::POPULATED_MIN;
use crate::threads::WorldStopped;
use libc::iovec;
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{MprotectFlags, MremapFlags, mremap_fixed};
use std::fs::{read_dir, read_to_string};
use std::ops::Range;
use std::path::Path;

/// Guards require Linux 6.13. `libc` does not define the `madvise` values of guards yet.
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;
/// This `madvise` value requires Linux 5.14. `libc` does not define this value on all systems.
const MADV_POPULATE_WRITE: i32 = 23;
const FOLIOS: &str = "/sys/kernel/mm/transparent_hugepage";
/// This flag of `mremap` requires Linux 5.7. Not every backend of the crate `rustix` defines the
/// flag.
const MREMAP_DONTUNMAP: MremapFlags = MremapFlags::from_bits_retain(4);

/// Releases the pages of a range, and sets guards, so that every access faults.
pub(crate) fn guard(memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
    set_guards(memory, &range, MADV_GUARD_INSTALL)
}

/// Removes the guards of a range, which then reads as zeros.
pub(crate) fn unguard(memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
    set_guards(memory, &range, MADV_GUARD_REMOVE)
}

fn set_guards(memory: &Managed, range: &Range<usize>, advice: i32) -> Result<(), Errno> {
    loop {
        // SAFETY: the caller owns the blocks. Their data are stored elsewhere, or the program does
        // not need them any more.
        match unsafe { memory.advise(range.clone(), advice) } {
            // A fault of another thread interfered with the call.
            Err(Errno::AGAIN | Errno::INTR) => {}
            set => return set,
        }
    }
}

/// Asks the kernel to reclaim the pages of a range before other pages. Callers use only the result:
/// an error if a page is locked or belongs to a huge page that can't be split.
pub(crate) fn cool(memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
    // SAFETY: the advice changes no data.
    unsafe { memory.advise(range, libc::MADV_COLD) }
}

/// Populates the missing pages of a range, and gives this process its own copy of each shared page.
pub(crate) fn make_own(memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
    // SAFETY: the advice changes no data.
    unsafe { memory.advise(range, MADV_POPULATE_WRITE) }
}

/// Populates pages that are about to be written, if the kernel is Linux 5.14 or later. Otherwise,
/// the writes populate the pages one by one.
pub(crate) fn populate(memory: &Managed, range: Range<usize>) {
    if range.len() >= POPULATED_MIN * page::page_size() {
        let _refused = make_own(memory, range);
    }
}

/// Sets whether children of fork inherit the first window.
pub(crate) fn set_inherited(memory: &Managed, is_inherited: bool) -> Result<(), Errno> {
    let advice = if is_inherited { libc::MADV_DOFORK } else { libc::MADV_DONTFORK };
    // SAFETY: the advice changes no data in this process. In a child, `keep_place` ensures that no
    // other mapping is created in the range.
    unsafe { memory.advise(0..memory.addresses().len(), advice) }
}

/// Sets MADV_HUGEPAGE for the first window if the kernel then allocates folios, but no folio of
/// more than `block` bytes.
pub(crate) fn allow_folios(memory: &Managed, block: usize) {
    if block > page::page_size() && has_folios(Path::new(FOLIOS), block) {
        // SAFETY: the advice changes no data.
        let _refused = unsafe { memory.advise(0..memory.addresses().len(), libc::MADV_HUGEPAGE) };
    }
}

/// Returns true if the kernel allocates folios for memory with MADV_HUGEPAGE, and all of these
/// folios have at most `block` bytes.
fn has_folios(settings: &Path, block: usize) -> bool {
    let set = |path: &Path| {
        let words = read_to_string(path.join("enabled")).unwrap_or_default();
        let chosen = words.split_whitespace().find_map(|word| word.strip_prefix('['));
        chosen.map_or(String::new(), |word| word.trim_end_matches(']').to_string())
    };
    let Ok(entries) = read_dir(settings) else { return false };
    let mut sizes = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let bytes = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<usize>().ok()?;
        let own = set(&entry.path());
        let chosen = if own == "inherit" { set(settings) } else { own };
        matches!(chosen.as_str(), "always" | "madvise").then_some(bytes << 10)
    });
    sizes.next().is_some_and(|first| first <= block && sizes.all(|size| size <= block))
}

/// Copies the bytes that begin at the offset `at` to `buf`, whatever their protection is. The
/// caller owns the blocks, or is evicting them.
pub(crate) fn read(memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
    let start = memory.address_of(&(at..at + buf.len())) as u64;
    in_parts(buf.len(), |file, done| pread(file, &mut buf[done..], start + done as u64))
}

/// Copies the bytes that begin at the offset `at` to `buf`. The caller is evicting the blocks, and
/// all present pages of the blocks are readable.
///
/// # Errors
/// `Errno::FAULT` if a page is missing. Any other error means that the kernel refused the call.
pub(crate) fn read_protected(memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
    read(memory, at, buf)
        .or_else(|_| read_readable(memory.address_of(&(at..at + buf.len())) as u64, buf))
}

/// Copies readable bytes that begin at the offset `at` to `buf`. The caller prevents writes to
/// these bytes, or discards the copy if the bytes changed. In a staging area, another thread may
/// remove whole pages during the copy. The copy then contains zeros, and the caller's later attempt
/// to become the owner of the block fails (zm-U4).
pub(crate) fn read_open(memory: &Managed, at: usize, buf: &mut [u8]) {
    let (start, bytes) = memory.place(&(at..at + buf.len()));
    // SAFETY: the range is within this memory, and readable. If the bytes change during the copy,
    // the caller detects this, and does not use the copy.
    unsafe { buf.as_mut_ptr().copy_from_nonoverlapping(start.cast(), bytes) }
}

/// Copies `bytes` to the offset `at`, whatever the protection of the memory is. The caller owns the
/// blocks, so other threads can't access them.
pub(crate) fn write(memory: &Managed, at: usize, bytes: &[u8]) -> Result<(), Errno> {
    let start = memory.address_of(&(at..at + bytes.len())) as u64;
    // The range is within this memory. The caller owns the blocks in this range, so no other thread
    // accesses them before their data are complete (zm-S2).
    in_parts(bytes.len(), |file, done| pwrite(file, &bytes[done..], start + done as u64))
}

/// Zeroes a readable and writable range, whose blocks the caller owns.
pub(crate) fn clear(memory: &Managed, range: Range<usize>) {
    let (start, bytes) = memory.place(&range);
    // SAFETY: the range is within this memory. The caller guarantees that the range is open. The
    // range stays open, because the caller owns the blocks (zm-S1). The program requested zeros,
    // and thereby permits this code to overwrite the bytes.
    unsafe { start.cast::<u8>().write_bytes(0, bytes) };
}

/// Calls `work` with the bytes of a readable and writable range, whose blocks the caller owns.
pub(crate) fn with_bytes<T>(
    memory: &Managed,
    range: Range<usize>,
    _stopped: &WorldStopped,
    work: impl FnOnce(&mut [u8]) -> T,
) -> T {
    let (start, len) = memory.place(&range);
    // SAFETY: the range is within this memory and mapped. The caller guarantees that the range is
    // open. The range stays open, because the caller owns the blocks (zm-S1). `_stopped` proves
    // that no other thread accesses the range. This thread runs only code of this crate until the
    // data are in place, so the program can't read the bytes before that.
    work(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
}

/// Copies `bytes` to the offset `at` of `staged`, and then moves the copy's pages to the same
/// offset of `memory`. For other threads, the move is atomic. The range of `staged` has no pages
/// after the call. The caller owns the blocks.
pub(crate) fn place(
    memory: &Managed,
    staged: &Managed,
    at: usize,
    bytes: &[u8],
) -> Result<(), Errno> {
    let range = at..at + bytes.len();
    let ((from, len), (to, _)) = (staged.place(&range), memory.place(&range));
    // SAFETY: the range is within `staged`, and open. Only the owner of the block at this offset
    // accesses this part of `staged`.
    unsafe { from.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), len) }
    let flags = MremapFlags::MAYMOVE | MREMAP_DONTUNMAP;
    // SAFETY: both ranges are within their memory. The caller owns the blocks, and the replaced
    // pages hold no data, because the blocks are absent. With DONTUNMAP, `staged` stays mapped.
    unsafe { mremap_fixed(from, len, len, flags, to)? };
    // The moved pages have the protection of `staged`, so they are not executable.
    let is_executable = memory.open_flags(&range).contains(MprotectFlags::EXEC);
    if is_executable { memory.open(range) } else { Ok(()) }
}

/// Reads or writes `bytes` bytes through the file of this process's memory. Each call of `step`
/// gets the file and the number of bytes transferred so far, and returns the number of bytes that
/// this call has transferred.
fn in_parts(
    bytes: usize,
    mut step: impl FnMut(BorrowedFd<'_>, usize) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    MEMORY.with(|file| {
        let mut done = 0;
        while done < bytes {
            match step(file, done) {
                // The file of this process's memory has no end. A result of 0 means that the
                // descriptor now refers to another file.
                Ok(0) => return Err(Errno::BADF),
                Ok(more) => done += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Reads readable bytes at `address` by `process_vm_readv`, without the file in /proc.
///
/// # Errors
/// `Errno::FAULT` if some bytes are not readable.
fn read_readable(address: u64, buf: &mut [u8]) -> Result<(), Errno> {
    let here = iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    let there = iovec { iov_base: address as *mut _, iov_len: buf.len() };
    // SAFETY: the kernel writes only within `buf`, and checks the memory that it reads.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
    match usize::try_from(read) {
        Ok(bytes) if bytes == buf.len() => Ok(()),
        Ok(_) => Err(Errno::FAULT),
        Err(_) => Err(last_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, write};

    #[test]
    fn folios_are_those_that_the_system_makes_and_no_larger_ones() {
        let settings = std::env::temp_dir().join(format!("zmem-folios-{}", std::process::id()));
        create_dir(&settings).unwrap();
        let set = |size: &str, words: &str| {
            let dir = settings.join(size);
            let _there = create_dir(&dir);
            write(dir.join("enabled"), words).unwrap();
        };
        let of = |block: usize| has_folios(&settings, block << 10);
        assert!(!of(16));
        set("hugepages-16kB", "always inherit madvise [never]");
        set("hugepages-2048kB", "always [inherit] madvise never");
        set("", "always madvise [never]");
        assert!(!of(16));
        set("hugepages-16kB", "always inherit [madvise] never");
        assert!(of(16) && of(64) && !of(8));
        set("", "[always] madvise never");
        assert!(!of(16) && !of(64), "2 MiB are more than a block");
        set("hugepages-2048kB", "always inherit madvise [never]");
        assert!(of(16));
        std::fs::remove_dir_all(&settings).unwrap();
    }
}
