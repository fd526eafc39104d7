//! Thread-local storage for code of ours, which the C library of the program knows nothing of.
//!
//! ```text
//!   | stack | storage of this code: 0, its image | of others: 0 | pointer | descriptor: 0 |
//! ```
//! di-9: storage of this code lies at one distance from every thread's pointer, as it is there from
//! the start. So storage is laid out for each thread as the C library does it: code that is entered
//! on any thread finds its own there, whatever pointer the program has set. The C library's
//! functions that it calls need no more of their own than zeros.
//!
//! # Safety
//! The C library's functions that are called here only look at what is loaded, and at the calling
//! thread's pointer.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// Above a thread's pointer the C library has its descriptor, which is smaller.
const DESCRIPTOR_BYTES: usize = 4096;
/// More than storage takes that lies around a variable.
const AROUND: usize = 1024;
/// The alignment of a pointer.
const ALIGN: usize = 64;

/// How the thread-local storage of this code begins on every thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storage {
    /// The address of what its file has of it, and how many bytes.
    image: usize,
    bytes: usize,
    /// How far below a thread's pointer it begins.
    below: usize,
    /// How far below a thread's pointer any storage lies that this code uses.
    depth: usize,
}

/// Takes note of the storage of the object that this code is in, where `info` is of that.
///
/// # Safety
/// `info` and `found` are those that [`Storage::find`] passes.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the C library's, of an object that is loaded, with the number of its headers.
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
        // SAFETY: `find` gave it, and waits.
        let found = unsafe { &mut *found.cast::<Storage>() };
        found.image = base.wrapping_add(storage.p_vaddr as usize);
        found.bytes = storage.p_filesz as usize;
        found.below = pointer().saturating_sub(info.dlpi_tls_data.addr());
    }
    0
}

/// Returns this thread's pointer.
fn pointer() -> usize {
    // SAFETY: it only looks at the pointer.
    unsafe { libc::pthread_self() as usize }
}

impl Storage {
    /// Returns how storage begins. The first call comes from a thread of the C library's.
    pub(crate) fn find() -> &'static Self {
        static FOUND: OnceLock<Storage> = OnceLock::new();
        FOUND.get_or_init(|| {
            let mut found = Storage::default();
            // SAFETY: `note` uses what it gets as that says; the other only looks.
            let errno = unsafe {
                libc::dl_iterate_phdr(Some(note), (&raw mut found).cast());
                libc::__errno_location().addr()
            };
            let lowest = found.below.max(pointer().saturating_sub(errno));
            found.depth = (lowest + AROUND).next_multiple_of(ALIGN);
            found
        })
    }

    /// Returns the bytes that storage takes, below its pointer and from there on.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.depth, DESCRIPTOR_BYTES)
    }

    /// Lays storage out around `pointer`, which is a multiple of 64.
    ///
    /// # Safety
    /// The [`room`](Self::room) there is the caller's, and zeros from the pointer on.
    pub(crate) unsafe fn lay_out(&self, pointer: usize) {
        let at = |address: usize| std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: all lies in the room, which the caller has; the image is the file's.
        unsafe {
            at(pointer - self.depth).write_bytes(0, self.depth);
            let image = std::ptr::with_exposed_provenance::<u8>(self.image);
            at(pointer - self.below).copy_from(image, self.bytes);
            // The pointer is found by itself, by two of its words.
            at(pointer).cast::<usize>().write(pointer);
            at(pointer).cast::<usize>().add(2).write(pointer);
        }
    }
}
