//! The zero-filled pages that the kernel mapped for a program at `execve`.
//!
//! ```text
//!   segment: | bytes of the file | zeros up to the page's end | pages of zeros |
//! ```
//! # Safety
//! The program has not started to run, so its stack and its segments are as the kernel set them up.
#![allow(unsafe_code)]

use crate::policy::HEADERS_MAX;
use crate::stack::{self, PAGE};
use executable::protection;
use libc::{Elf64_Ehdr, Elf64_Phdr};
use std::ops::Range;
use std::ptr::with_exposed_provenance;

const MAGIC: [u8; libc::SELFMAG] = *b"\x7fELF";

pub(crate) struct Zeros {
    pages: Range<usize>,
    prot: i32,
}

/// Finds the zero-filled pages of the program whose stack begins at `stack`. Returns `None` if
/// their addresses are uncertain.
pub(crate) fn of(stack: usize) -> Option<Vec<Zeros>> {
    let words = with_exposed_provenance::<usize>(stack);
    // SAFETY: the first word is the argument count. The arguments and a zero follow, then the
    // environment.
    let environment = unsafe { words.add(1 + *words + 1) };
    let (_, auxiliary) = stack::inherited(environment.cast());
    let value = |kind: u64| {
        let pair = auxiliary.iter().find(|pair| pair.0 == kind as usize);
        pair.map(|pair| pair.1)
    };
    let (at, count) = (value(libc::AT_PHDR)?, value(libc::AT_PHNUM)?);
    let headers: Vec<Elf64_Phdr> = read(at, Some(count).filter(|it| *it <= HEADERS_MAX)?)?;
    let base = base(at, &headers)?;
    let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let with_addresses = loads.map(|load| {
        let start = base.wrapping_add(load.p_vaddr as usize);
        Some((load, start..start.checked_add(load.p_memsz as usize)?))
    });
    let segments: Vec<_> = with_addresses.collect::<Option<_>>()?;
    let is_code = |load: &Elf64_Phdr| load.p_flags & libc::PF_X != 0;
    let entry = value(libc::AT_ENTRY)?;
    if !segments.iter().any(|(load, addresses)| is_code(load) && addresses.contains(&entry)) {
        return None;
    }
    let of_segment = |(load, addresses): &(&Elf64_Phdr, Range<usize>)| {
        let file_end = addresses.start.checked_add(load.p_filesz as usize)?;
        let pages = up(file_end)?..up(addresses.end)?;
        let prot = protection(load.p_flags);
        let is_data = !is_code(load) && prot & libc::PROT_WRITE != 0 && !pages.is_empty();
        let reach = |(_, other): &&(_, Range<usize>)| {
            other.start & !(PAGE - 1) < pages.end && pages.start < other.end
        };
        // Checks that no other segment uses any of the zero-filled pages.
        let is_alone = segments.iter().filter(reach).count() == 1;
        (is_data && is_alone).then_some(Zeros { pages, prot })
    };
    Some(segments.iter().filter_map(of_segment).collect())
}

/// Maps zero-filled pages again. The runtime handles this call, so it then manages the pages.
pub(crate) fn map_again(zeros: &Zeros) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let (at, bytes) = (zeros.pages.start as *mut _, zeros.pages.len());
    // SAFETY: the pages belong to the program, which has not started to run, and hold zeros before
    // and after the call. If the call fails, the pages do not change.
    unsafe { libc::mmap(at, bytes, zeros.prot, flags, -1, 0) };
}

/// Returns the program's address in memory minus its address in the file. `at` is the address of
/// the program headers.
fn base(at: usize, headers: &[Elf64_Phdr]) -> Option<usize> {
    // A static program has no PT_PHDR. The ELF header of a static program is expected at the start
    // of the page that holds the program headers.
    let offset = match headers.iter().find(|header| header.p_type == libc::PT_PHDR) {
        Some(own) => own.p_offset,
        None => {
            let start = at & !(PAGE - 1);
            let file: Elf64_Ehdr = read(start, 1)?.pop()?;
            let is_header = file.e_ident[..libc::SELFMAG] == MAGIC
                && start.checked_add(file.e_phoff as usize) == Some(at)
                && usize::from(file.e_phnum) == headers.len();
            is_header.then_some(file.e_phoff)?
        }
    };
    let mut loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let load = loads.find(|load| offset.wrapping_sub(load.p_offset) < load.p_filesz)?;
    let of_file = (offset - load.p_offset).checked_add(load.p_vaddr)?;
    Some(at.wrapping_sub(of_file as usize))
}

/// A structure of numbers, for which each bit pattern is valid.
trait Numbers: Copy {}
impl Numbers for Elf64_Ehdr {}
impl Numbers for Elf64_Phdr {}

/// Reads `count` structures at `address`. Returns `None` if a byte of them is not mapped.
fn read<T: Numbers>(address: usize, count: usize) -> Option<Vec<T>> {
    let mut found: Vec<T> = Vec::with_capacity(count);
    let bytes = count * size_of::<T>();
    let own = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: bytes };
    let its = libc::iovec { iov_base: address as *mut _, iov_len: bytes };
    // SAFETY: the kernel writes only to the list, and the call fails if the memory to read is not
    // mapped.
    let copied =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const own, 1, &raw const its, 1, 0) };
    // SAFETY: the kernel has written the whole list, and all bytes are valid numbers.
    (copied == bytes as isize).then(|| unsafe { found.set_len(count) })?;
    Some(found)
}

/// Rounds an address up to a multiple of the page size.
fn up(address: usize) -> Option<usize> {
    address.checked_next_multiple_of(PAGE)
}
