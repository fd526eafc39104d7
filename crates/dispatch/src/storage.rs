//! Thread-local storage for code of this crate and the hook, of which the program's C library does
//! not know.
//!
//! ```text
//!   | stack | storage of this code: 0, its image | of others: 0 | pointer | descriptor: 0 |
//! ```
//! di-9: storage of this code lies at the same distance from every thread's pointer, because its
//! object was loaded at the start. So storage is laid out for each thread as the C library does it.
//! Code that is entered on any thread finds its own storage, whatever pointer the program has set.
//! The functions of the C library that it calls need no storage of their own except zeros.
//!
//! # Safety
//! The functions of the C library that are called here only read which objects are loaded, and the
//! calling thread's pointer.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// More than the bytes of the C library's descriptor, which lies above a thread's pointer.
const DESCRIPTOR_BYTES: usize = 4096;
/// More than the storage around a variable takes.
const AROUND: usize = 1024;
/// The alignment of a pointer.
const ALIGN: usize = 64;

/// The initial contents of this code's thread-local storage on every thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storage {
    /// The address and the length of its initial image in its file.
    image: usize,
    bytes: usize,
    /// The distance of its start below a thread's pointer.
    below: usize,
    /// The greatest distance below a thread's pointer of any storage that this code uses.
    depth: usize,
}

/// Records the storage of the object that has this code, if `info` describes that object.
///
/// # Safety
/// `info` and `found` are those that [`Storage::find`] passes.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the structure is the C library's, of a loaded object, with the number of its headers.
    let (info, headers) = unsafe {
        let info = &*info;
        (info, std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    let base = info.dlpi_addr as usize;
    let here = note as *const () as usize;
    let has_here = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD && (start..start + header.p_memsz as usize).contains(&here)
    };
    let storage = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    if let Some(storage) = storage.filter(|_| headers.iter().any(has_here)) {
        // SAFETY: `find` passes it, and waits.
        let found = unsafe { &mut *found.cast::<Storage>() };
        found.image = base.wrapping_add(storage.p_vaddr as usize);
        found.bytes = storage.p_filesz as usize;
        found.below = pointer().saturating_sub(info.dlpi_tls_data.addr());
    }
    0
}

/// Returns this thread's pointer.
fn pointer() -> usize {
    // SAFETY: the call only returns the pointer.
    unsafe { libc::pthread_self() as usize }
}

impl Storage {
    /// Returns the initial contents of storage. The first call must be on a thread of the C
    /// library.
    pub(crate) fn find() -> &'static Self {
        static FOUND: OnceLock<Storage> = OnceLock::new();
        FOUND.get_or_init(|| {
            let mut found = Storage::default();
            // SAFETY: `note` uses its arguments as its documentation requires; the other call only
            // returns an address.
            let errno = unsafe {
                libc::dl_iterate_phdr(Some(note), (&raw mut found).cast());
                libc::__errno_location().addr()
            };
            let lowest = found.below.max(pointer().saturating_sub(errno));
            found.depth = (lowest + AROUND).next_multiple_of(ALIGN);
            found
        })
    }

    /// Returns the bytes that storage takes below its pointer, and from the pointer on.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.depth, DESCRIPTOR_BYTES)
    }

    /// Lays storage out around `pointer`, which is a multiple of 64.
    ///
    /// # Safety
    /// The caller owns the [`room`](Self::room) there, which holds zeros from the pointer on.
    pub(crate) unsafe fn lay_out(&self, pointer: usize) {
        let at = |address: usize| std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: all of it lies in the room, which the caller owns; the image is the file's.
        unsafe {
            at(pointer - self.depth).write_bytes(0, self.depth);
            let image = std::ptr::with_exposed_provenance::<u8>(self.image);
            at(pointer - self.below).copy_from(image, self.bytes);
            // Two words at the pointer hold the pointer itself.
            at(pointer).cast::<usize>().write(pointer);
            at(pointer).cast::<usize>().add(2).write(pointer);
        }
    }
}
