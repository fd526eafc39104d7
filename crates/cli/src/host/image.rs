//! Maps the segments of a program, or of its loader, as the kernel does.
//!
//! # Safety
//! Fixed mappings replace only address space that this module has reserved. Other mappings replace
//! nothing.
#![allow(unsafe_code)]

use executable::protection;
use object::elf::{ET_DYN, FileHeader64, PF_X, PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_PHDR};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, ReadCache};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

pub(crate) const PAGE: u64 = 4096;
/// The end of the addresses that a program can use.
const ADDRESSES_END: u64 = 1 << 47;

type ProgramHeader = object::elf::ProgramHeader64<LittleEndian>;

#[derive(Debug)]
pub(crate) struct Image {
    /// For each byte of the program, its address in memory minus its address in the file.
    pub(crate) base: usize,
    pub(crate) entry: usize,
    /// The address of the program headers, and their number.
    pub(crate) headers: (usize, usize),
    /// The path of the loader that the program's file specifies.
    pub(crate) loader: Option<PathBuf>,
    pub(crate) is_stack_executable: bool,
}

fn damaged(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}

/// Maps `bytes` bytes, and returns their address.
fn map(
    at: u64,
    bytes: u64,
    prot: i32,
    flags: i32,
    file: Option<(&File, u64)>,
) -> Result<u64, Error> {
    let (fd, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
    // SAFETY: see the head of this file: `at` lies in a reservation, or the flags do not include
    // MAP_FIXED.
    let start = unsafe {
        libc::mmap(at as *mut _, bytes as usize, prot, flags | libc::MAP_PRIVATE, fd, offset as i64)
    };
    if start == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(start as u64) }
}

impl Image {
    pub(crate) fn map(file: &File) -> Result<Self, Error> {
        let end = LittleEndian;
        let data = &ReadCache::new(file.try_clone()?);
        let of = |_| damaged("its file is damaged");
        let header = FileHeader64::<LittleEndian>::parse(data).map_err(of)?;
        let segments = header.program_headers(end, data).map_err(of)?;
        let loads: Vec<&ProgramHeader> =
            segments.iter().filter(|segment| segment.p_type(end) == PT_LOAD).collect();
        let high = check(&loads)?;
        let Some(first) = loads.first() else {
            return Err(damaged("its file has nothing to load"));
        };
        let low = first.p_vaddr(end) & !(PAGE - 1);
        if high <= low {
            return Err(damaged("its segments are empty"));
        }
        let align = loads
            .iter()
            .map(|load| load.p_align(end))
            .filter(|align| align.is_power_of_two())
            .max()
            .unwrap_or(PAGE)
            .max(PAGE);
        let base = reserve(low, high, align, header.e_type(end) == ET_DYN)?;
        for load in &loads {
            map_segment(file, load, base)?;
        }
        let find = |kind| segments.iter().find(|segment| segment.p_type(end) == kind);
        let loader = match find(PT_INTERP) {
            Some(segment) => segment
                .interpreter(end, data)
                .map_err(of)?
                .map(|path| PathBuf::from(OsStr::from_bytes(path))),
            None => None,
        };
        let at = |address: u64| base.wrapping_add(address) as usize;
        let headers = match find(PT_PHDR) {
            Some(segment) => at(segment.p_vaddr(end)),
            None => {
                let offset = header.e_phoff(end);
                let holder = loads.iter().find(|load| {
                    (load.p_offset(end)..load.p_offset(end) + load.p_filesz(end)).contains(&offset)
                });
                holder.map_or(0, |load| at(load.p_vaddr(end) + offset - load.p_offset(end)))
            }
        };
        Ok(Image {
            base: base as usize,
            entry: at(header.e_entry(end)),
            headers: (headers, segments.len()),
            loader,
            is_stack_executable: find(PT_GNU_STACK)
                .is_some_and(|segment| segment.p_flags(end).0 & PF_X.0 != 0),
        })
    }
}

/// Checks that the segments are in order, and returns the first address after the last segment.
fn check(loads: &[&ProgramHeader]) -> Result<u64, Error> {
    let end = LittleEndian;
    let (mut below, mut high) = (0, 0);
    for load in loads {
        let (start, bytes) = (load.p_vaddr(end), load.p_memsz(end));
        let memory_end =
            start.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE));
        let file_end = load.p_offset(end).checked_add(load.p_filesz(end));
        let is_whole = load.p_filesz(end) <= bytes && file_end.is_some();
        let same_page = load.p_offset(end) % PAGE == start % PAGE || load.p_filesz(end) == 0;
        match memory_end {
            Some(end) if is_whole && same_page && start >= below && end <= ADDRESSES_END => {
                (below, high) = (start, end.max(high));
            }
            _ => return Err(damaged("a segment is damaged")),
        }
    }
    Ok(high)
}

/// Reserves the addresses of a program. Returns a byte's address in memory minus its address in the
/// file.
fn reserve(low: u64, high: u64, align: u64, is_movable: bool) -> Result<u64, Error> {
    let bytes = high - low;
    let flags = libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    if !is_movable {
        let fixed = flags | libc::MAP_FIXED_NOREPLACE;
        let start = map(low, bytes, libc::PROT_NONE, fixed, None)?;
        return if start == low { Ok(0) } else { Err(damaged("its addresses are not free")) };
    }
    let room =
        bytes.checked_add(align - PAGE).ok_or_else(|| damaged("its alignment is damaged"))?;
    let start = map(0, room, libc::PROT_NONE, flags, None)?;
    let aligned = start.next_multiple_of(align);
    let unmap = |from: u64, to: u64| {
        if to > from {
            // SAFETY: this function has just reserved these pages, and nothing uses them.
            unsafe { libc::munmap(from as *mut _, (to - from) as usize) };
        }
    };
    unmap(start, aligned);
    unmap(aligned + bytes, start + room);
    Ok(aligned.wrapping_sub(low))
}

/// Maps a segment into the reserved addresses.
fn map_segment(file: &File, segment: &ProgramHeader, base: u64) -> Result<(), Error> {
    let end = LittleEndian;
    let prot = protection(segment.p_flags(end).0);
    let start = base.wrapping_add(segment.p_vaddr(end));
    let page = start & !(PAGE - 1);
    let file_end = start + segment.p_filesz(end);
    let memory_end = (start + segment.p_memsz(end)).next_multiple_of(PAGE);
    let mapped = if segment.p_filesz(end) == 0 { page } else { file_end.next_multiple_of(PAGE) };
    if mapped > page {
        let offset = segment
            .p_offset(end)
            .checked_sub(start - page)
            .ok_or_else(|| damaged("a segment is damaged"))?;
        map(page, file_end - page, prot, libc::MAP_FIXED, Some((file, offset)))?;
    }
    if memory_end > mapped {
        let flags = libc::MAP_FIXED | libc::MAP_ANONYMOUS;
        map(mapped, memory_end - mapped, prot, flags, None)?;
    }
    // Zeroes the rest of the last page of file data, because loaders allocate memory there.
    if prot & libc::PROT_WRITE != 0 && mapped > file_end {
        // SAFETY: the page was just mapped as writable, and nothing refers to it.
        unsafe { (file_end as *mut u8).write_bytes(0, (mapped - file_end) as usize) };
    }
    Ok(())
}
