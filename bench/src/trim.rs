//! Releases the free memory that malloc keeps.
#![allow(unsafe_code)]

/// Releases the free memory that malloc keeps.
pub(crate) fn trim() {
    // SAFETY: the call touches free memory only. A result of 0 means that no memory could be
    // released, which is no error.
    unsafe { libc::malloc_trim(0) };
}
