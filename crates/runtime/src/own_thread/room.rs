//! Where the library's own thread has its stack and its thread-local storage.
//!
//! # Safety
//! The room stays mapped, and its storage is laid out by who has it. The C library's functions that
//! are called here only look at what is loaded, and at the calling thread's pointer.
#![allow(unsafe_code)]

use crate::local;
use crate::space::system;
use std::ffi::{c_int, c_void};

const PAGE: usize = 4096;
/// Only what is touched of it takes memory.
const STACK_BYTES: usize = 256 << 10;
/// Above a thread's pointer the C library has its descriptor, which is smaller.
const DESCRIPTOR_BYTES: usize = PAGE;

/// How this library's thread-local storage begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Storage {
    /// The address of what its file has of it, and how many bytes.
    image: usize,
    bytes: usize,
    /// How far below a thread's pointer it lies.
    below: usize,
}

/// Addresses of the room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) stack_end: usize,
    pub(super) pointer: usize,
}

/// Takes note of this library's storage where `info` is this library.
///
/// # Safety
/// `info` and `found` are those that [`find_storage`] is called with.
unsafe extern "C" fn note_storage(
    info: *mut libc::dl_phdr_info,
    _: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the C library's, of an object that is loaded.
    let info = unsafe { &*info };
    // SAFETY: it has so many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr as usize;
    let here = note_storage as *const () as usize;
    let has_here = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD && (start..start + header.p_memsz as usize).contains(&here)
    };
    let storage = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    if let Some(storage) = storage.filter(|_| headers.iter().any(has_here)) {
        // SAFETY: `find_storage` gave it, and waits.
        let found = unsafe { &mut *found.cast::<Storage>() };
        found.image = base.wrapping_add(storage.p_vaddr as usize);
        found.bytes = storage.p_filesz as usize;
        // SAFETY: it only looks at this thread's pointer.
        let pointer = unsafe { libc::pthread_self() } as usize;
        found.below = pointer.saturating_sub(info.dlpi_tls_data.addr());
    }
    0
}

/// Returns how this library's storage begins, if the C library tells.
pub(super) fn find_storage() -> Option<Storage> {
    let mut found = Storage::default();
    // SAFETY: `note_storage` uses what it is given as that says.
    unsafe { libc::dl_iterate_phdr(Some(note_storage), (&raw mut found).cast()) };
    (found.below > 0 && found.bytes <= found.below && found.below <= local::depth())
        .then_some(found)
}

/// Maps a room.
pub(super) fn map_room() -> Option<Room> {
    let below = local::depth().next_multiple_of(PAGE);
    let bytes = PAGE + STACK_BYTES + below + DESCRIPTOR_BYTES;
    let (prot, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let args = [0, bytes, prot as usize, flags as usize, usize::MAX, 0];
    let start = system(libc::SYS_mmap, args).ok()?;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let open = [start + PAGE, bytes - PAGE, prot as usize, 0, 0, 0];
    system(libc::SYS_mprotect, open).ok()?;
    let stack_end = start + PAGE + STACK_BYTES;
    Some(Room { stack_end, pointer: stack_end + below })
}

impl Room {
    /// Lays the thread's storage out. The caller has the room.
    pub(super) fn lay_out(&self, storage: &Storage) {
        let at = |address: usize| std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the room, which is the caller's: storage and descriptor end where it does.
        unsafe {
            let zeros = self.pointer + DESCRIPTOR_BYTES - self.stack_end;
            at(self.stack_end).write_bytes(0, zeros);
            let image = std::ptr::with_exposed_provenance::<u8>(storage.image);
            at(self.pointer - storage.below).copy_from(image, storage.bytes);
            // The pointer is found by itself, by two of its words.
            at(self.pointer).cast::<usize>().write(self.pointer);
            at(self.pointer).cast::<usize>().add(2).write(self.pointer);
        }
    }
}
