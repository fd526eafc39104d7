//! The start of a host in a process that has executed the program itself (in-3).
//!
//! # Safety
//! The program's stack is as the kernel has made it, and its segments are mapped, as it has not
//! begun.
#![allow(unsafe_code)]

use crate::stack;
use inject::Entry;
use std::ffi::OsStr;
use std::ptr::with_exposed_provenance;
use std::slice::from_raw_parts;

const PAGE: usize = 4096;
/// The first bytes of an ELF file.
const ELFMAG: [u8; libc::SELFMAG] = *b"\x7fELF";

/// Runs the program. Returns the reason if the runtime can't begin.
pub(crate) fn begin(settings: &OsStr, entry: &Entry) -> String {
    stack::leave_areas();
    entry.wait_for_helper();
    // SAFETY: one thread runs, and goes on in the program.
    if let Err(message) = unsafe { runtime::begin(settings, None) } {
        return message;
    }
    zeros(entry).iter().for_each(map_again);
    // SAFETY: the stack is the program's.
    unsafe { stack::enter(entry.stack, &[], entry.instruction) }
}

/// Memory of a program that is zeros at its start.
struct Zeros {
    start: usize,
    bytes: usize,
    prot: i32,
}

/// Returns the pages of the program's segments that have no data of its file.
fn zeros(entry: &Entry) -> Vec<Zeros> {
    let words = with_exposed_provenance::<usize>(entry.stack);
    // SAFETY: the count of arguments, the arguments, and a zero lie before the environment.
    let environment = unsafe { words.add(1 + *words + 1) };
    let (_, auxiliary) = stack::inherited(environment.cast());
    let value =
        |kind: u64| auxiliary.iter().find(|pair| pair.0 == kind as usize).map(|pair| pair.1);
    let (Some(at), Some(count)) = (value(libc::AT_PHDR), value(libc::AT_PHNUM)) else {
        return Vec::new();
    };
    // SAFETY: the kernel names the program's headers, which it has mapped.
    let headers: &[libc::Elf64_Phdr] =
        unsafe { from_raw_parts(with_exposed_provenance(at), count) };
    let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let Some(base) = base(at, headers) else { return Vec::new() };
    let is_entry = |load: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(load.p_vaddr as usize);
        let within = value(libc::AT_ENTRY)
            .is_some_and(|entry| entry.wrapping_sub(start) < load.p_filesz as usize);
        within && load.p_flags & libc::PF_X != 0
    };
    if !loads.clone().any(is_entry) {
        return Vec::new();
    }
    let of = |load: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(load.p_vaddr as usize);
        let [zeros, end] = [load.p_filesz, load.p_memsz]
            .map(|bytes| start.wrapping_add(bytes as usize).next_multiple_of(PAGE));
        let rights = [(libc::PF_R, libc::PROT_READ), (libc::PF_W, libc::PROT_WRITE)];
        let rights = rights.iter().filter(|(flag, _)| load.p_flags & flag != 0);
        let prot = rights.fold(0, |all, (_, prot)| all | prot);
        let is_data = load.p_flags & libc::PF_X == 0 && prot & libc::PROT_WRITE != 0;
        let bytes = end.saturating_sub(zeros);
        (is_data && bytes > 0).then_some(Zeros { start: zeros, bytes, prot })
    };
    let is_alone = |zeros: &Zeros| {
        let reach = |load: &&libc::Elf64_Phdr| {
            let start = base.wrapping_add(load.p_vaddr as usize) & !(PAGE - 1);
            let end = base.wrapping_add((load.p_vaddr + load.p_memsz) as usize);
            start < zeros.start + zeros.bytes && end.next_multiple_of(PAGE) > zeros.start
        };
        // The segment that has the zeros.
        loads.clone().filter(reach).count() == 1
    };
    loads.clone().filter_map(of).filter(is_alone).collect()
}

/// Returns what the program's addresses differ by from those of its file, where its headers lie at
/// the address `at`. Returns `None` if that is not sure.
fn base(at: usize, headers: &[libc::Elf64_Phdr]) -> Option<usize> {
    let load_of = |offset: u64| {
        let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        loads.clone().find(|load| offset.wrapping_sub(load.p_offset) < load.p_filesz)
    };
    // Static programs have no record of the headers. The file's header may lie before them.
    let offset = match headers.iter().find(|header| header.p_type == libc::PT_PHDR) {
        Some(own) => own.p_offset,
        None => {
            let start = at & !(PAGE - 1);
            // SAFETY: the page of the headers is mapped. The structure is numbers.
            let file = unsafe { &*with_exposed_provenance::<libc::Elf64_Ehdr>(start) };
            let is_header = file.e_ident[..libc::SELFMAG] == ELFMAG
                && start.wrapping_add(file.e_phoff as usize) == at
                && usize::from(file.e_phnum) == headers.len();
            is_header.then_some(file.e_phoff)?
        }
    };
    let load = load_of(offset)?;
    let of_file = offset - load.p_offset + load.p_vaddr;
    Some(at.wrapping_sub(of_file as usize))
}

/// Maps zeros again by a call that the runtime answers, so that they are managed.
fn map_again(zeros: &Zeros) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let (at, bytes) = (zeros.start as *mut _, zeros.bytes);
    // SAFETY: the pages are the program's, which has not begun, and are zeros before and after. If
    // the system refuses, they stay as they are.
    unsafe { libc::mmap(at, bytes, zeros.prot, flags, -1, 0) };
}
