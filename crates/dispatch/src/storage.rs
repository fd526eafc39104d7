//! Thread-local storage of this crate and the hook, on any thread.
//!
//! ```text
//!   | stack | storage of this code: 0, its image | of others: 0 | pointer | descriptor: 0 |
//! ```
//! di-9: this code's storage has the same distance from every thread pointer, because the object
//! with this code was loaded when the program started. This module lays out storage for each thread
//! as the C library does. So this code finds its storage on any thread, even if the program has set
//! another pointer. The C library's functions that this code calls work with zeroed storage.
//!
//! # Safety
//! The C library functions that this file calls only read the list of loaded objects, or return the
//! calling thread's pointer.
#![allow(unsafe_code)]

use crate::policy::{AROUND, DESCRIPTOR_BYTES, POINTER_ALIGN};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// The initial contents and the size of this code's thread-local storage, which are the same for
/// every thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storage {
    /// The address and the length of the initial image in the mapped file.
    image: usize,
    bytes: usize,
    /// The number of bytes between the storage's start and the thread pointer above the start.
    below: usize,
    /// The maximum number of bytes below the thread pointer that this code uses as storage.
    depth: usize,
}

/// Records the storage of the object that contains this code, if `info` describes that object.
///
/// # Safety
/// [`Storage::find`] passes this function and `found` to the C library, which passes `info`.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the structure is the C library's, describes a loaded object, and contains the number
    // of the object's headers.
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
        // SAFETY: `find` passes its local variable, and waits until this function has returned.
        let found = unsafe { &mut *found.cast::<Storage>() };
        found.image = base.wrapping_add(storage.p_vaddr as usize);
        found.bytes = storage.p_filesz as usize;
        found.below = pointer().saturating_sub(info.dlpi_tls_data.addr());
    }
    0
}

/// Returns this thread's thread pointer.
fn pointer() -> usize {
    // SAFETY: the call only returns the pointer.
    unsafe { libc::pthread_self() as usize }
}

impl Storage {
    /// Returns the initial contents and the size of this code's thread-local storage. The first
    /// call must be on a thread of the C library.
    pub(crate) fn find() -> &'static Self {
        static FOUND: OnceLock<Storage> = OnceLock::new();
        FOUND.get_or_init(|| {
            let mut found = Storage::default();
            // SAFETY: `note` uses its arguments as its documentation requires; `__errno_location`
            // only returns an address.
            let errno = unsafe {
                libc::dl_iterate_phdr(Some(note), (&raw mut found).cast());
                libc::__errno_location().addr()
            };
            let lowest = found.below.max(pointer().saturating_sub(errno));
            found.depth = (lowest + AROUND).next_multiple_of(POINTER_ALIGN);
            found
        })
    }

    /// Returns the number of bytes of storage below a thread pointer, and the number from the
    /// pointer upwards.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.depth, DESCRIPTOR_BYTES)
    }

    /// Lays out storage around `pointer`, which is a multiple of [`POINTER_ALIGN`].
    ///
    /// # Safety
    /// The caller owns the memory around `pointer`, of the sizes that [`room`](Self::room) returns.
    /// All bytes of that memory from `pointer` upwards are zero.
    pub(crate) unsafe fn lay_out(&self, pointer: usize) {
        let at = |address: usize| std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: all written bytes lie in memory that the caller owns. The image is in the mapped
        // file.
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
